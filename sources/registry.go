package sources

import (
	"context"
	"errors"
	"log/slog"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/internal/budget"
	"github.com/docket-export/docket/internal/disk"
)

// Definition describes one kind of source; see sinks.Definition.
type Definition struct {
	Kind      string        // the configuration key that selects the source: "unix"
	NewConfig func() Config // a pointer to a configuration that holds the defaults
	Sample    string        // PORT stands before a port, which differs in a second entry
}

// ConfigKey returns Kind.
func (d Definition) ConfigKey() string { return d.Kind }

// Config is the typed configuration of one source, owned by its package.
type Config interface {
	// Validate reports every problem at once, with paths relative to the
	// source's own section. It does not touch disk or network.
	Validate() config.Problems
	// New makes the source. Nothing is bound or opened before Run.
	New(env Env) Source
}

// Sized is a Config that knows how much memory its source takes at most. docket check
// adds it to the memory that a container needs.
type Sized interface {
	// MemoryBytes leaves out what the source takes from Env.Memory.
	MemoryBytes(maxRecordBytes int) int64
}

// Accepting is a Config whose source accepts connections.
type Accepting interface {
	// Accepts is how many connections it has at most; Env.MaxConnections may permit fewer.
	Accepts() int
}

// Unredacted is a Config that may have the source keep parts of records as they came. A source
// cannot do so and have rules of redaction.
type Unredacted interface {
	// KeepsParts is the key of the section that says so; empty: the source keeps none.
	KeepsParts() string
}

// Sharing is a Config whose source takes memory for long lines from Env.Memory.
type Sharing interface {
	SharesMemory()
}

// Env is what a source is told about where it runs.
type Env struct {
	Name           string // the source's name in the configuration
	MaxRecordBytes int    // limits.maxRecordBytes
	// StateDir is where the source keeps what it must know after a restart, such as
	// how far it has read. It is the source's alone, lies beside the queue, and is
	// made by the source when it has something to keep (package statefile).
	StateDir StateDir
	// Stored calls visit for the records at the end of the queue that the source has stored, the
	// oldest first, with the names of their producers. visit must keep neither. nil: there are none.
	Stored func(ctx context.Context, visit func(producer string, record []byte)) error
	// Redaction is what the source takes out of its records; nil: nothing.
	Redaction Redaction
	// MaxConnections is what the limit of open files leaves of Accepts; 0: all of it.
	MaxConnections int
	// Memory is what connections of all sources may take beyond their first small
	// buffer. nil: the source makes one for itself.
	Memory *Memory
	Log    *slog.Logger // carries the source's name already
}

// StateDir is a directory whose files nobody can have planted links to; see package disk.
type StateDir = disk.Path

// Memory is a budget of bytes that all sources share.
type Memory = budget.Budget

// ErrOutgrown says that what a Redaction leaves of a record is longer than a record may be.
var ErrOutgrown = errors.New("too large after redaction")

// Redaction removes secrets from records. The intake applies it to each line that it stores. A source
// that keeps part of a line itself, in a file or in the text of an error, keeps the output of
// Append alone. Hashes are made of that output too: the hash of a guessable text reveals it. Calls may
// overlap.
type Redaction interface {
	// Append redacts record, a valid JSON object, and appends the result to dst. record
	// and dst must not share memory. With an error dst comes back unchanged, and
	// nothing of record may be kept. ErrOutgrown: the intake will refuse record as
	// TooLarge. Any other error may be temporary: the key of an HMAC cannot be read.
	Append(dst, record []byte) ([]byte, error)
}

// Registry is the list of sources a program knows.
type Registry = config.Registry[Definition]
