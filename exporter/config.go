package exporter

import (
	"errors"
	"fmt"
	"time"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/exporter/filter"
	"github.com/docket-export/docket/exporter/queue"
	"github.com/docket-export/docket/exporter/queue/state"
	"github.com/docket-export/docket/exporter/redact"
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
	Metrics  *MetricsConfig // nil: no second listener
	Shutdown ShutdownConfig
	Limits   LimitsConfig
}

// SourceConfig is one entry of "sources". The key beside its name selects the
// kind.
type SourceConfig struct {
	Name string `yaml:"name"`
	// Redact changes every record of this source before anything is stored.
	Redact []redact.Rule `yaml:"redact"`
	// Kind is the key of Config.
	Kind   string
	Config sources.Config
}

// QueueConfig is the section "queue".
type QueueConfig struct {
	// Directory holds everything the queue keeps. It is made when missing.
	Directory string `yaml:"directory"`
	// MaxBytes bounds the segments on disk.
	MaxBytes config.Size `yaml:"maxBytes"`
	// WhenFull says what docket does at MaxBytes.
	WhenFull WhenFull `yaml:"whenFull"`
	// MinFreeBytes is the space that the queue leaves free on its file system. Below it
	// the disk counts as full.
	MinFreeBytes FreeBytes `yaml:"minFreeBytes"`
	// Retain keeps records that every sink has passed, for replays. Without it
	// they are removed.
	Retain *RetainConfig `yaml:"retain"`
}

// WhenFull says what a full queue does with new lines.
type WhenFull string

// The choices of queue.whenFull.
const (
	Block      WhenFull = "Block"      // stop reading from producers
	DropOldest WhenFull = "DropOldest" // give up the oldest records that a sink still waits for
)

// UnmarshalText reads one of the choices.
func (w *WhenFull) UnmarshalText(text []byte) error {
	if string(text) == "Refuse" { // a choice of earlier versions
		return errors.New("the choice Refuse is gone: Block stops reading, and producers wait or drop by their own rule; DropOldest drops the oldest records")
	}
	*w = WhenFull(text)
	return nil
}

// FreeBytes is a size, or Auto: the smaller of 64 MiB and 5 % of the file system.
type FreeBytes config.Size

// Auto is the default of queue.minFreeBytes. It depends on the file system, which
// docket reads only when it opens the queue.
const Auto FreeBytes = -1

const autoText = "Auto"

// UnmarshalText reads a size or Auto.
func (f *FreeBytes) UnmarshalText(text []byte) error {
	if string(text) == autoText {
		*f = Auto
		return nil
	}
	var size config.Size
	if err := size.UnmarshalText(text); err != nil {
		return fmt.Errorf("%w; leave it out for the smaller of 64Mi and 5%% of the file system", err)
	}
	*f = FreeBytes(size)
	return nil
}

// MarshalText writes f so that UnmarshalText reads it back.
func (f FreeBytes) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

func (f FreeBytes) String() string {
	if f == Auto {
		return autoText
	}
	return config.Size(f).String()
}

// RetainConfig bounds the records kept for replays. At least one bound is set.
// Retained records never displace new ones: docket removes them when the queue needs
// the space.
type RetainConfig struct {
	// MaxAge bounds the time since a kept record was received. 0: no bound.
	MaxAge config.Duration `yaml:"maxAge"`
	// MaxBytes bounds the kept records. 0: only the bound of the queue.
	MaxBytes config.Size `yaml:"maxBytes"`
}

// SinkConfig is one entry of "sinks". The key of its kind selects the sink.
type SinkConfig struct {
	Name  string            `yaml:"name"`
	Batch sinks.BatchLimits `yaml:"batch"`
	Retry RetryConfig       `yaml:"retry"`
	// When is a CEL expression over "record". The sink gets the records for which
	// it is true. Empty: all.
	When string `yaml:"when"`
	// OnError says what docket does with a record for which When cannot be
	// evaluated.
	OnError OnError `yaml:"onError"`
	// OnReject says what docket does with a record that the destination rejects
	// for good.
	OnReject OnReject `yaml:"onReject"`
	// DeadLetters bounds the dead letters of this sink.
	DeadLetters DeadLettersConfig `yaml:"deadLetters"`
	// Stamp appends the record's id, seq, source and time as the last member
	// "_docket" of the object. The other bytes stay as they are.
	Stamp bool `yaml:"stamp"`
	// From is where a sink that is new to the queue starts.
	From From `yaml:"from"`
	// Retire drops the records that the queue keeps for this sink, and the
	// position of the sink. The sink receives nothing more. A sink that is only
	// removed from the configuration keeps its undelivered records.
	Retire bool `yaml:"retire"`
	// Kind is the key of Config.
	Kind   string
	Config sinks.Config
}

// ordered reports whether the sink gets each record once and hears of gaps.
func (s *SinkConfig) ordered() bool {
	_, ok := s.Config.(sinks.Ordered)
	return ok
}

// most is what one Send takes of a backlog.
func (s *SinkConfig) most() sinks.BatchLimits {
	l := s.Batch
	if g, ok := s.Config.(sinks.Gatherer); ok {
		most := g.Gather(l)
		l.MaxRecords, l.MaxBytes = max(l.MaxRecords, most.MaxRecords), max(l.MaxBytes, most.MaxBytes)
	}
	return l
}

// limits are those of what is read of the queue for one Send.
func (s *SinkConfig) limits() queue.Limits {
	l := queue.Limits{Records: s.Batch.MaxRecords, Bytes: int(s.Batch.MaxBytes), Wait: time.Duration(s.Batch.MaxWait)}
	most := s.most()
	l.Most.Records, l.Most.Bytes = most.MaxRecords, int(most.MaxBytes)
	return l
}

// From is where a sink that is new to a queue starts.
type From string

// The choices of sinks[].from.
const (
	Oldest From = "Oldest" // at the first kept record
	Now    From = "Now"    // at the next record; earlier records count as filtered
)

// OnError says what docket does with a record that the filter of a sink cannot
// judge.
type OnError string

// The choices of sinks[].onError.
const (
	Deliver  OnError = "Deliver"  // the sink gets it
	Withhold OnError = "Withhold" // the sink does not get it: it counts as filtered
)

// OnReject says what docket does with a record that the destination of a sink
// rejects for good.
type OnReject string

// The choices of sinks[].onReject.
const (
	DeadLetter   OnReject = "DeadLetter" // set it aside with the answer of the destination
	DropRejected OnReject = "Drop"       // give it up, and count it as dropped
	BlockAt      OnReject = "Block"      // keep it, and everything behind it, until the destination takes it
)

// DeadLettersConfig bounds the dead letters of one sink.
type DeadLettersConfig struct {
	// MaxBytes bounds the dead letters: the records and the answers about them. On
	// disk they take up to twice as much, and three times for a moment. When they
	// are full, the next rejected record stops the sink until some are redriven or
	// purged.
	MaxBytes config.Size `yaml:"maxBytes"`
}

// RetryConfig bounds the pause between two attempts. The number of attempts has
// no bound.
type RetryConfig struct {
	InitialBackoff config.Duration `yaml:"initialBackoff"`
	MaxBackoff     config.Duration `yaml:"maxBackoff"`
}

// AdminConfig is the section "admin".
type AdminConfig struct {
	// Address of the admin endpoint, host:port. Empty: no endpoint.
	Address string `yaml:"address"`
	// Pprof serves /debug/pprof/ with profiles of the process, for every user who can
	// connect to Address or to the Unix socket in the queue's directory.
	Pprof bool `yaml:"pprof"`
}

// MetricsConfig is the section "metrics": a listener for clients on other machines, such as
// the kubelet and Prometheus. It answers /metrics, /readyz and /livez.
type MetricsConfig struct {
	// Address to listen on, host:port. Without a host: every address of the
	// machine.
	Address string `yaml:"address"`
	// TLS makes the listener serve HTTPS. Its files are read again when they change.
	TLS *config.ServerTLS `yaml:"tls"`
}

// ShutdownConfig is the section "shutdown".
type ShutdownConfig struct {
	// DrainTimeout is how long a stop may continue to deliver. For up to four
	// fifths of it, the sources take lines from producers that are still connected;
	// see intakeShare.
	DrainTimeout config.Duration `yaml:"drainTimeout"`
}

// LimitsConfig is the section "limits".
type LimitsConfig struct {
	// MaxRecordBytes bounds one line; a longer one is refused as TooLarge.
	MaxRecordBytes config.Size `yaml:"maxRecordBytes"`
	// Producers is how many names of producers docket remembers for each source and
	// identity. The identity is the uid of a peer on a Unix socket, and the subject
	// of its client certificate on TCP. Beyond this number docket forgets the name
	// that was silent for longest: lines that it sends again are stored again. For
	// all peers together the number is 8192, or Producers if that is larger.
	Producers int `yaml:"producers"`
}

func defaultQueue() QueueConfig {
	return QueueConfig{MaxBytes: 2 << 30, WhenFull: Block, MinFreeBytes: Auto}
}

func defaultSink() SinkConfig {
	return SinkConfig{Retry: defaultRetry(), OnError: Deliver, OnReject: DeadLetter, DeadLetters: defaultDeadLetters(), From: Oldest}
}

func defaultRetry() RetryConfig {
	return RetryConfig{
		InitialBackoff: config.Duration(500 * time.Millisecond),
		MaxBackoff:     config.Duration(time.Minute),
	}
}

// defaultDeadLetters holds a quarter of a million of 1 KB.
func defaultDeadLetters() DeadLettersConfig { return DeadLettersConfig{MaxBytes: 256 << 20} }

func defaultAdmin() AdminConfig { return AdminConfig{Address: "127.0.0.1:9464"} }

// defaultShutdown leaves, of the thirty seconds that Kubernetes gives a pod, eight to
// close what hangs and two to spare.
func defaultShutdown() ShutdownConfig {
	return ShutdownConfig{DrainTimeout: config.Duration(20 * time.Second)}
}

func defaultLimits() LimitsConfig {
	return LimitsConfig{MaxRecordBytes: 1 << 20, Producers: state.DefaultProducers}
}

// Bounds of limits.maxRecordBytes. A record of less than 1Ki loses what decisions
// are about; sources and sinks hold a whole record in memory, so 16Mi bounds it.
const (
	minRecordBytes = 1 << 10
	maxRecordBytes = 16 << 20
)

// maxProducers bounds limits.producers: it is the memory of some 70 MB.
const maxProducers = 65536

// minDeadLetterBytes is twice the longest record that limits.maxRecordBytes
// allows: one must fit with what was said of it.
const minDeadLetterBytes = 2 * maxRecordBytes

// minQueueBytes is sixteen of the smallest segments: a segment goes as a whole
// once every sink has passed it, and with a few large ones a queue is full most
// of the time. Four of the longest records must fit as well: the segment being
// written stays, with delivered records in it, and so may the one before.
const minQueueBytes = 16 << 20

// validateSections checks everything but sources and sinks.
func (c *Config) validateSections() config.Problems {
	var p config.Problems
	p = append(p, c.Queue.validate(c.Limits.MaxRecordBytes).In("queue")...)
	if c.Admin.Address != "" {
		p.Check("admin.address", checkAdminAddress(c.Admin.Address))
	}
	if m := c.Metrics; m != nil {
		p.Check("metrics.address", config.Required(m.Address, "is required: host:port to listen on, such as :9465"), config.HostPort(m.Address))
		p.Refuse(m.Address == c.Admin.Address, "metrics.address", "must differ from admin.address")
		p = append(p, m.TLS.Validate().In("metrics.tls")...)
	}
	p.Check("shutdown.drainTimeout", config.NotNegative(c.Shutdown.DrainTimeout))
	if n := c.Limits.MaxRecordBytes; n < minRecordBytes || n > maxRecordBytes {
		p.Addf("limits.maxRecordBytes", "must be between %s and %s", config.Size(minRecordBytes), config.Size(maxRecordBytes))
	}
	p.Check("limits.producers", config.Between(c.Limits.Producers, 1, maxProducers))
	return p
}

// FormerKeys implements config.Reduced.
func (AdminConfig) FormerKeys() map[string]string {
	return map[string]string{"tokenFile": "docket no longer makes changes over admin.address: run docket deadletter, queue, replay, retry and tail where they reach " + AdminSocket + " in queue.directory"}
}

// validate checks the section for a queue of records of at most recordBytes.
func (q *QueueConfig) validate(recordBytes config.Size) config.Problems {
	var p config.Problems
	p.Check("directory", config.Required(q.Directory, "is required"))
	p.Check("whenFull", config.Choice(q.WhenFull, Block, DropOldest))
	if least := max(minQueueBytes, 4*min(recordBytes, maxRecordBytes)); q.MaxBytes < least {
		why := ""
		if least > minQueueBytes {
			why = ": 4 times limits.maxRecordBytes"
		}
		p.Addf("maxBytes", "must be at least %s%s", least, why)
	}
	if r := q.Retain; r != nil {
		p.Check("retain.maxAge", config.NotNegative(r.MaxAge))
		p.Refuse(r.MaxAge == 0 && r.MaxBytes == 0, "retain.maxAge", "is required without maxBytes: how long to keep delivered records, such as 24h")
		p.Refuse(r.MaxBytes > q.MaxBytes, "retain.maxBytes", "must be at most queue.maxBytes, which is %s: retained records are part of the queue", q.MaxBytes)
	}
	return p
}

// checkAdminAddress takes loopback addresses only: the endpoint has no TLS, and
// tells everybody who asks what the exporter does.
func checkAdminAddress(address string) error {
	if err := config.HostPort(address); err != nil {
		return err
	}
	if !config.Loopback(address) {
		return errors.New("must be a loopback address such as 127.0.0.1:9464: the endpoint has no TLS")
	}
	return nil
}

func (s *SourceConfig) validate() config.Problems {
	var p config.Problems
	p.Check("name", checkName(s.Name))
	p.Refuse(s.Name == ownSource, "name", "is reserved for docket's own records: choose another name")
	return append(p, redact.Validate(s.Redact).In("redact")...)
}

func (s *SinkConfig) validate() config.Problems {
	var p config.Problems
	p.Check("name", checkName(s.Name))
	p.Check("from", config.Choice(s.From, Oldest, Now))
	p.Check("onError", config.Choice(s.OnError, Deliver, Withhold))
	p.Refuse(s.When == "" && s.OnError == Withhold, "onError", "has no effect without when: set when, or remove it")
	p.Check("onReject", config.Choice(s.OnReject, DeadLetter, DropRejected, BlockAt))
	p = append(p, s.Batch.Validate().In("batch")...)
	p.Check("retry.initialBackoff", config.Positive(s.Retry.InitialBackoff))
	if s.Retry.MaxBackoff < s.Retry.InitialBackoff {
		p.Addf("retry.maxBackoff", "must be at least retry.initialBackoff, which is %s", s.Retry.InitialBackoff)
	}
	if s.DeadLetters.MaxBytes < minDeadLetterBytes {
		p.Addf("deadLetters.maxBytes", "must be at least %s", config.Size(minDeadLetterBytes))
	}
	if err := filter.Check(s.When); err != nil {
		p.Addf("when", "%v", err)
	}
	return p
}
