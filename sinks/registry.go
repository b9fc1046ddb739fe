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
	// Open makes the sink. It must not wait for the destination: that it
	// cannot be reached is Send's to report. An error keeps the sink in state
	// Error, and the delivery loop calls Open again later, so that a directory
	// mended or a file supplied needs no restart.
	Open(ctx context.Context, env Env) (Sink, error)
}

// Concurrent is a Config whose sink may be sent several batches at the same time.
// Order is lost between them; the queue lets go of a batch once all before it are
// done too. While batches are under way the delivery loop makes the next one of a
// backlog, for which it copies records. So a sink that takes one at a time gains by
// being Concurrent only where the copy costs less than the destination's wait for the
// next batch.
type Concurrent interface {
	// MaxInFlight is how many Sends may overlap. 1: they do not.
	MaxInFlight() int
}

// Ordered is a Config whose sink proves that its records are complete. It gets each
// record once and in the order of seqs, so it gets no dead letter again. It gets batches
// that have gaps and no items too, and notes what it does not get.
type Ordered interface {
	Ordered()
}

// Replayable is a Config that knows whether its sink takes records again. Other sinks do.
type Replayable interface {
	// Replayable returns nil if a record that the sink has had is written again. Its error
	// says what the sink is, and what to do instead.
	Replayable() error
}

// Sized is a Config that knows what its sink has in memory at most. docket check adds it
// to the memory that a container needs.
type Sized interface {
	// MemoryBytes is for batches of at most batch bytes, the batch itself left out.
	MemoryBytes(batch int64) int64
}

// Keeper is a Config whose sink keeps files of its own, which count for the volume that a
// container needs.
type Keeper interface {
	// DiskBytes is what the files take at most, with batches of at most batch bytes. Where
	// nothing bounds them it is 0, and key is the one to set.
	DiskBytes(batch int64) (bytes int64, key string)
}

// Prober is a Config that can be tried without a record: docket check --connect.
type Prober interface {
	// Probe goes as far towards a delivery as it can without one: it looks up
	// names, connects, presents what it has to authenticate with, and asks whether
	// records could be written. It leaves nothing behind and may be called while
	// an exporter runs with the same configuration. Its errors are those of Send,
	// and say what to do. It must return promptly once ctx is done.
	Probe(ctx context.Context, env Env) error
}

// Env is what a sink is told about where it runs.
type Env struct {
	Name string       // the sink's name in the configuration
	Log  *slog.Logger // carries the sink's name already
	// Announce has docket make a record of its own, which goes to every sink. It
	// waits for nothing: the record is stored when the queue takes one, and a later
	// announcement of the same sink may take the place of one that is not stored
	// yet, or is lost with the process. So a sink announces what replaces all it has
	// said before, and again when it is opened. record becomes one JSON object.
	// Calls may overlap. nil where nothing is stored: in a trial.
	Announce func(record any)
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
	return config.Check(l)
}

// Rules implements config.Ruled.
func (BatchLimits) Rules() []config.Rule {
	return []config.Rule{config.AtLeast("maxRecords", 1), config.AtLeast("maxBytes", 1), config.NotNegative("maxWait")}
}

// Registry is the list of sinks a program knows.
type Registry = config.Registry[Definition]

// OwnSource is Item.Source of the records that docket makes itself. No configured
// source can have this name.
const OwnSource = "docket"
