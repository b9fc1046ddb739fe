package exporter

import (
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
	From   From
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

func defaultLimits() LimitsConfig { return LimitsConfig{MaxRecordBytes: 1 << 20} }
