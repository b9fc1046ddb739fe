package exporter

import (
	"errors"
	"net"
	"time"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/sinks"
	"github.com/docket-export/docket/sources"
)

// Config is the configuration of one exporter. Load makes one from a file,
// DefaultConfig the embedded one; both are complete, with every default filled in.
type Config struct {
	Sources  []SourceConfig
	Queue    QueueConfig
	Sinks    []SinkConfig
	Admin    AdminConfig
	Shutdown ShutdownConfig
	Limits   LimitsConfig
}

// SourceConfig is one entry of "sources". The key beside its name selects the
// kind.
type SourceConfig struct {
	Name   string
	Kind   string
	Config sources.Config
}

// QueueConfig is the section "queue".
type QueueConfig struct {
	// Directory holds everything the queue keeps. It is made when missing.
	Directory string `yaml:"directory"`
	// MaxBytes bounds the segments on disk.
	MaxBytes config.Size `yaml:"maxBytes"`
	// WhenFull is what happens at MaxBytes: Block stops reading from producers,
	// Refuse answers them QueueFull.
	WhenFull WhenFull `yaml:"whenFull"`
}

// WhenFull says what a full queue does with new lines.
type WhenFull string

// The choices of queue.whenFull.
const (
	Block  WhenFull = "Block"
	Refuse WhenFull = "Refuse"
)

// SinkConfig is one entry of "sinks". The key of its kind selects the sink.
type SinkConfig struct {
	Name  string
	Kind  string
	Batch sinks.BatchLimits
	Retry RetryConfig
	// Stamp appends the record's id, seq, source and time as the last member
	// "_docket" of the object. The other bytes stay as they are.
	Stamp bool
	// From is where a sink that is new to the queue starts.
	From From
	// Retire lets go of the records that the queue keeps for this sink, and of
	// its place in it. Nothing is delivered to it any more. A sink that is only
	// removed from the configuration keeps its undelivered records.
	Retire bool
	Config sinks.Config
}

// From is where a sink that is new to a queue starts.
type From string

// The choices of sinks[].from.
const (
	Oldest From = "Oldest" // at the first kept record
	Now    From = "Now"    // at the next one; earlier ones count as filtered
)

// RetryConfig bounds the pause between two attempts. There is no end to them.
type RetryConfig struct {
	InitialBackoff config.Duration `yaml:"initialBackoff"`
	MaxBackoff     config.Duration `yaml:"maxBackoff"`
}

// AdminConfig is the section "admin".
type AdminConfig struct {
	// Address of the admin endpoint, host:port. Empty: no endpoint.
	Address string `yaml:"address"`
}

// ShutdownConfig is the section "shutdown".
type ShutdownConfig struct {
	// DrainTimeout is how long a stop may go on delivering. Half of it may pass
	// before the sources stop taking lines from producers still connected.
	DrainTimeout config.Duration `yaml:"drainTimeout"`
}

// LimitsConfig is the section "limits".
type LimitsConfig struct {
	// MaxRecordBytes bounds one line; a longer one is refused as TooLarge.
	MaxRecordBytes config.Size `yaml:"maxRecordBytes"`
}

func defaultQueue() QueueConfig {
	return QueueConfig{MaxBytes: 2 << 30, WhenFull: Block}
}

func defaultRetry() RetryConfig {
	return RetryConfig{
		InitialBackoff: config.Duration(500 * time.Millisecond),
		MaxBackoff:     config.Duration(time.Minute),
	}
}

func defaultAdmin() AdminConfig { return AdminConfig{Address: "127.0.0.1:9464"} }

// defaultShutdown leaves ten of the thirty seconds that Kubernetes gives a pod.
func defaultShutdown() ShutdownConfig {
	return ShutdownConfig{DrainTimeout: config.Duration(20 * time.Second)}
}

func defaultLimits() LimitsConfig { return LimitsConfig{MaxRecordBytes: 1 << 20} }

// Bounds of limits.maxRecordBytes. A record of less than 1Ki loses what decisions
// are about; sources and sinks hold a whole record in memory, so 16Mi bounds it.
const (
	minRecordBytes = 1 << 10
	maxRecordBytes = 16 << 20
)

// minQueueBytes is sixteen of the smallest segments: a segment goes as a whole
// once every sink has passed it, and with a few large ones a queue is full most
// of the time. Four of the longest records must fit as well: the segment being
// written stays, with delivered records in it, and so may the one before.
const minQueueBytes = 16 << 20

// validateSections checks everything but sources and sinks.
func (c *Config) validateSections() config.Problems {
	var p config.Problems
	if c.Queue.Directory == "" {
		p.Addf("queue.directory", "is required")
	}
	if least := max(minQueueBytes, 4*min(c.Limits.MaxRecordBytes, maxRecordBytes)); c.Queue.MaxBytes < least {
		p.Addf("queue.maxBytes", "must be at least %s: %s or 4 times limits.maxRecordBytes, whichever is more", least, config.Size(minQueueBytes))
	}
	p.Check("queue.whenFull", config.Choice(c.Queue.WhenFull, Block, Refuse))
	p.Check("admin.address", checkAdminAddress(c.Admin.Address))
	if c.Shutdown.DrainTimeout < 0 {
		p.Addf("shutdown.drainTimeout", "must not be negative")
	}
	if n := c.Limits.MaxRecordBytes; n < minRecordBytes || n > maxRecordBytes {
		p.Addf("limits.maxRecordBytes", "must be between %s and %s", config.Size(minRecordBytes), config.Size(maxRecordBytes))
	}
	return p
}

// checkAdminAddress takes loopback addresses only: the endpoint has no TLS, and
// tells whoever asks what the exporter does.
func checkAdminAddress(address string) error {
	if address == "" {
		return nil
	}
	if err := config.HostPort(address); err != nil {
		return err
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	if ip := net.ParseIP(host); host == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	return errors.New("must be a loopback address such as 127.0.0.1:9464: the endpoint has no TLS")
}

// validate checks what sinks of all kinds have in common.
func (s *SinkConfig) validate() config.Problems {
	p := s.Batch.Validate().In("batch")
	if s.Retry.InitialBackoff <= 0 {
		p.Addf("retry.initialBackoff", "must be positive")
	}
	if s.Retry.MaxBackoff < s.Retry.InitialBackoff {
		p.Addf("retry.maxBackoff", "must be at least retry.initialBackoff, which is %s", s.Retry.InitialBackoff)
	}
	p.Check("from", config.Choice(s.From, Oldest, Now))
	return p
}
