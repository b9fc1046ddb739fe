// Package runs reads the files that an inventory has claimed, and sends what is in them:
// the records of an audit with a record of the run, or those of a segment of admission
// decisions.
//
//	reader.go    one claimed file after the other
//	read.go      a file on its way into the queue
//	outbox.go    the lines of a file in pieces, sent while more are read
//	changes.go   the same, as changes from one audit to the next
//	tally.go     the lines of an audit counted: its run record
//	lines.go     a file cut into lines
//	entry.go     what a line says
package runs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/docket-export/docket/sources"
	"github.com/docket-export/docket/sources/failures"
	"github.com/docket-export/docket/sources/feed"
	"github.com/docket-export/docket/sources/gatekeepersource/inventory"
)

// Options say how files are read.
type Options struct {
	Env   sources.Env
	Delta bool // changes are sent in place of every violation
	// SnapshotInterval is how often Delta repeats the violations that stand.
	SnapshotInterval time.Duration
	// PieceBytes is how much is gathered before it is sent. What is sent does not
	// depend on it.
	PieceBytes int
	Failures   *failures.List
	Audits     *sources.AuditLog
}

// Files is what a Reader needs of an inventory.
type Files interface {
	Next(now time.Time) (inventory.File, bool)
	Content(inventory.File) (f *os.File, closeFile func(), err error)
	Finish(inventory.File)
	Lose(inventory.File)
	Postpone(f inventory.File, now time.Time)
	Channel(name string) inventory.Channel
	SetChannel(name string, update func(*inventory.Channel))
	Save() error
	Wake() <-chan struct{}
}

// Reader sends the files that were claimed. There is one.
type Reader struct {
	Options
	files   Files
	in      sources.Intake
	renamed map[string]bool   // files under whose names the queue has other lines, by id
	reasons map[string]string // why the last run of a channel was not complete, for the log
	changes *changes          // of the channel that was read last; nil: none
}

// NewReader returns a Reader of files that sends to an intake.
func NewReader(o Options, files Files, in sources.Intake) *Reader {
	return &Reader{
		Options: o, files: files, in: in,
		renamed: make(map[string]bool), reasons: make(map[string]string),
	}
}

// Run reads files until the scanner has ended and there are none left, or ctx is done.
// An error is that of the intake.
func (r *Reader) Run(ctx context.Context, scanned <-chan struct{}) error {
	defer r.closeChanges()
	for {
		last := false
		select {
		case <-scanned:
			last = true // before next is asked: what the last scan has found is read
		default:
		}
		if f, ok := r.files.Next(time.Now()); ok {
			if err := r.readOne(ctx, f); err != nil {
				return err
			}
			continue
		}
		_ = r.files.Save()
		if last {
			return nil
		}
		select {
		case <-r.files.Wake():
		case <-scanned:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// readOne reads one file, and postpones it where it cannot be read.
func (r *Reader) readOne(ctx context.Context, f inventory.File) error {
	about := "file/" + f.ID
	err := r.read(ctx, f)
	if conflict, ok := errors.AsType[*feed.Conflict](err); ok {
		err = r.readRenamed(ctx, f, conflict)
	}
	fault, ok := errors.AsType[*fileError](err)
	switch {
	case err == nil:
		r.Failures.Set(about, "")
		delete(r.renamed, f.ID)
		r.files.Finish(f)
	case !ok:
		return err
	case errors.Is(err, inventory.ErrGone):
		r.Failures.Set(about, "")
		r.files.Lose(f)
	default:
		r.Failures.Set(about, fmt.Sprintf("cannot read %s, will try again: %v", f.Path(), fault.err))
		r.files.Postpone(f, time.Now())
	}
	return nil
}

// fileError says that a file could not be read to its end. Others may be.
type fileError struct{ err error }

func (e *fileError) Error() string { return e.err.Error() }

func (e *fileError) Unwrap() error { return e.err }
