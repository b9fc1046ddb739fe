package sinks

import (
	"context"
	"log/slog"
	"time"

	"github.com/docket-export/docket/config"
)

// Definition describes one kind of sink. The registry in cmd is a plain list of
// these: nothing registers itself by being imported.
type Definition struct {
	// Kind is the configuration key that selects the sink: "file", "http".
	Kind string
	// Batch is what the delivery loop gathers for one Send unless configured.
	Batch BatchLimits
	// NewConfig returns a pointer to a configuration that holds the defaults,
	// ready to be decoded into.
	NewConfig func() Config
	// Sample is an entry of the list of sinks, as docket init writes it: with comments, and
	// what is often set behind a "#". NAME stands for the name of the entry, and COUNT for
	// nothing in the first of its kind, for 2 in the second.
	Sample string
}

// ConfigKey returns Kind.
func (d Definition) ConfigKey() string { return d.Kind }

// Config is the typed configuration of one sink, owned by its package.
type Config interface {
	// Validate reports every problem at once, with paths relative to the
	// sink's own section. It does not touch disk or network.
	Validate() config.Problems
	// Open makes the sink. It must not wait for the destination: Send reports a
	// destination that cannot be reached. An error keeps the sink in state Error,
	// and the delivery loop calls Open again later: a repaired directory or a new
	// file needs no restart.
	Open(ctx context.Context, env Env) (Sink, error)
}

// Ordered is a Config whose sink proves that its records are complete. It gets each
// record once and in the order of seqs, so it gets no redriven dead letters. It also
// gets batches with gaps and no items, and notes which records it does not get.
type Ordered interface {
	Ordered()
}

// Replayable is a Config that knows whether its sink takes records again. Other sinks
// always do.
type Replayable interface {
	// Replayable returns nil if the sink writes a record again that it has received before. Its
	// error says what the sink is, and what to do instead.
	Replayable() error
}

// Sized is a Config that knows the most memory that its sink takes. docket check adds it
// to the memory that a container needs.
type Sized interface {
	// MemoryBytes is for batches of at most batch bytes, the batch itself left out.
	MemoryBytes(batch int64) int64
}

// Keeper is a Config whose sink keeps files of its own, which count for the volume that a
// container needs.
type Keeper interface {
	// DiskBytes is the most that the files take, with batches of at most batch bytes. If
	// nothing bounds the files it is 0, and key is the configuration key to set.
	DiskBytes(batch int64) (bytes int64, key string)
}

// Deleter is a Config whose sink deletes its oldest files: docket check --diff.
type Deleter interface {
	// Deletes counts the files, and their bytes, that the sink would delete if it started with this
	// configuration now. It changes nothing, and may be called while an exporter runs. It fails as
	// Send does.
	Deletes() (files int, bytes int64, err error)
}

// Prober is a Config that can be tried without a record: docket check --connect.
type Prober interface {
	// Probe does everything but a delivery. It looks up names, connects, authenticates, and asks
	// whether records could be written. It leaves nothing behind and may be called while an
	// exporter runs with the same configuration. It fails as Send does, and its errors say what to
	// do. It must return promptly once ctx is done.
	Probe(ctx context.Context, env Env) error
}

// Env is what a sink is told about where it runs.
type Env struct {
	Name string       // the sink's name in the configuration
	Log  *slog.Logger // carries the sink's name already
	// Announce makes docket store a record of its own, which goes to every sink. It does not block.
	// The record is stored when the queue has room. A later announcement of the same sink may
	// replace one that is not stored yet or is lost with the process. So each announcement must
	// replace all earlier ones, and a sink announces again when it is opened. record becomes one
	// JSON object. Calls may overlap. nil in a trial, where nothing is stored.
	Announce func(record any)
	// Trouble shows in the sink's status what the sink cannot do beside Send, and that the sink tries it
	// again after pause. A nil err ends it. It does not block. nil in a trial.
	Trouble func(err error, pause time.Duration)
	// RetryNow returns a channel that is closed when an operator wants the sink to try now what it
	// would try later. nil in a trial.
	RetryNow func() <-chan struct{}
	// Transactions is told of the transactions of a sink that delivers in them; nil in a trial.
	Transactions Observer
}

// BatchLimits bound what one Send carries. A batch is sent when it holds
// MaxRecords or MaxBytes, or when its first record has waited for MaxWait.
// A single record larger than MaxBytes is a batch of its own.
type BatchLimits struct {
	MaxRecords int             `yaml:"maxRecords"` // at least 1
	MaxBytes   config.Size     `yaml:"maxBytes"`   // record bytes, at least 1
	MaxWait    config.Duration `yaml:"maxWait"`    // 0 sends whatever is there
}

// DefaultBatch suits a destination that is reached over the network.
func DefaultBatch() BatchLimits {
	return BatchLimits{MaxRecords: 500, MaxBytes: 1 << 20, MaxWait: config.Duration(time.Second)}
}

// Validate reports limits that cannot hold a record.
func (l BatchLimits) Validate() config.Problems {
	var p config.Problems
	p.Check("maxRecords", config.AtLeast(l.MaxRecords, 1))
	p.Check("maxBytes", config.AtLeast(l.MaxBytes, 1))
	p.Check("maxWait", config.NotNegative(l.MaxWait))
	return p
}

// Registry is the list of sinks a program knows.
type Registry = config.Registry[Definition]

// OwnSource is Item.Source of the records that docket makes itself. No configured
// source can have this name.
const OwnSource = "docket"
