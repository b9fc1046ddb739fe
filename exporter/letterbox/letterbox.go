// Package letterbox gives access to the dead letters of a queue: through the docket that
// runs on it, or on the disk.
package letterbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"

	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/exporter/adminclient"
	"github.com/docket-export/docket/exporter/deadletter"
	"github.com/docket-export/docket/exporter/queue/inspect"
	"github.com/docket-export/docket/internal/rooted"
)

// Change is what can be done to dead letters, in the words of the admin
// endpoint.
type Change string

// The changes.
const (
	Redrive Change = "redrive"
	Purge   Change = "purge"
)

// Box gives access to the dead letters of a queue: through the docket that runs
// on it, or on the disk.
type Box interface {
	// Counts returns the counts of every sink.
	Counts(ctx context.Context) ([]deadletter.Count, error)
	// List calls each with the letters of a sink, in the order of seq.
	List(ctx context.Context, sink string, each func(deadletter.Summary) error) error
	// Show returns a letter and its record.
	Show(ctx context.Context, sink, id string) (deadletter.Summary, []byte, error)
	// Change redrives or purges letters.
	Change(ctx context.Context, sink string, what Change, c deadletter.Change) (deadletter.Changed, error)
	// Hint is more text for an error about an unknown sink; may be empty.
	Hint(sink string) string
	// Running says whether a docket is running that sees the changes.
	Running() bool
	Close() error
}

// Open returns the Box of the docket that runs on the queue of cfg or, without such a
// docket, of the queue on disk. Only the queue on disk uses log.
func Open(ctx context.Context, cfg *exporter.Config, log *slog.Logger) (Box, error) {
	client, o, err := adminclient.Find(ctx, cfg.Queue.Directory, inspect.Open)
	if err != nil {
		return nil, err
	}
	if client != nil {
		return &onlineBox{client: client, directory: cfg.Queue.Directory}, nil
	}
	return &offlineBox{cfg: cfg, o: o, log: log}, nil
}

// offlineBox works on the files of a queue, which it holds.
type offlineBox struct {
	cfg *exporter.Config
	o   *inspect.Queue
	log *slog.Logger
}

func (b *offlineBox) Running() bool { return false }

func (b *offlineBox) Hint(string) string { return "" }

func (b *offlineBox) Close() error { return b.o.Close() }

// open opens the dead letters of a sink.
func (b *offlineBox) open(sink string, readOnly bool) (*deadletter.Store, error) {
	o := deadletter.Options{Queue: b.o.ID(), ReadOnly: readOnly, Log: b.log}
	for _, s := range b.cfg.Sinks {
		if s.Name == sink {
			o.MaxBytes = int64(s.DeadLetters.MaxBytes)
		}
	}
	return deadletter.Open(b.directory(sink), o)
}

func (b *offlineBox) directory(sink string) string {
	return filepath.Join(b.cfg.Queue.Directory, exporter.DeadLettersDirectory, sink)
}

// look calls do with the dead letters of a sink, to be read.
func (b *offlineBox) look(sink string, do func(*deadletter.Store) error) error {
	s, err := b.open(sink, true)
	if err != nil {
		return err
	}
	return errors.Join(do(s), s.Close())
}

// sinks are those that are configured, and those that have dead letters although
// they are not.
func (b *offlineBox) sinks() ([]string, error) {
	var names []string
	for _, s := range b.cfg.Sinks {
		names = append(names, s.Name)
	}
	entries, err := rooted.At(b.cfg.Queue.Directory).Join(exporter.DeadLettersDirectory).ReadDir()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		if e.IsDir() && !slices.Contains(names, e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

func (b *offlineBox) Counts(context.Context) ([]deadletter.Count, error) {
	names, err := b.sinks()
	if err != nil {
		return nil, err
	}
	counts := []deadletter.Count{}
	for _, name := range names {
		err := b.look(name, func(s *deadletter.Store) error {
			counts = append(counts, s.Stats().Count(name))
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return counts, nil
}

func (b *offlineBox) List(ctx context.Context, sink string, each func(deadletter.Summary) error) error {
	const atATime = 256
	return b.look(sink, func(s *deadletter.Store) error {
		for after := uint64(0); ctx.Err() == nil; {
			page, err := s.Page(after, atATime)
			if err != nil || len(page) == 0 {
				return err
			}
			for _, l := range page {
				if err := each(l.Summary(sink)); err != nil {
					return err
				}
			}
			after = page[len(page)-1].Seq
		}
		return context.Cause(ctx)
	})
}

func (b *offlineBox) Show(_ context.Context, sink, id string) (summary deadletter.Summary, record []byte, err error) {
	err = b.look(sink, func(s *deadletter.Store) error {
		seq, found, err := s.Find(id)
		if err == nil && !found {
			err = fmt.Errorf("sink %s has no dead letter %s", sink, id)
		}
		if err != nil {
			return err
		}
		l, _, err := s.Get(seq)
		summary, record = l.Summary(sink), l.Record
		return err
	})
	return summary, record, err
}

func (b *offlineBox) Change(_ context.Context, sink string, what Change, c deadletter.Change) (changed deadletter.Changed, err error) {
	s, err := b.open(sink, false)
	if err != nil {
		return changed, err
	}
	seqs, unknown, err := s.FindAll(c)
	if err != nil {
		return changed, errors.Join(err, s.Close())
	}
	changed.Unknown = unknown
	// Before the change as well: it takes the lock of a queue that has none yet.
	err = b.settle(sink, s)
	if err == nil {
		do := s.Redrive
		if what == Purge {
			do = s.Remove
		}
		changed.Count, err = do(seqs)
	}
	if err == nil {
		err = b.settle(sink, s)
	}
	return changed, errors.Join(err, s.Close())
}

// settle makes the account of the sink say what there is.
func (b *offlineBox) settle(sink string, s *deadletter.Store) error {
	return b.o.CountSetAside(sink, func(next uint64) (kept, redriving uint64) { return s.Counts(0, next) })
}
