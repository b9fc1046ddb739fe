package exporter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/exporter/deadletter"
	"github.com/docket-export/docket/internal/outage"
	"github.com/docket-export/docket/sinks"
)

// errLetters says that dead letters could not be read or written.
var errLetters = errors.New("dead letters")

// letters are the dead letters of one sink. The account counts them without knowing the store. A
// letter with a seq that the sink has not passed is of a record that is pending still: a crash
// came between the letter and the account, or a replay goes over it.
type letters struct {
	dir     string
	options deadletter.Options
	log     *slog.Logger
	said    outage.Log // of letters that cannot be removed; owned by the delivery
	isNear  atomic.Bool

	opening sync.Mutex
	closed  bool                             // no store is opened any more; guarded by opening
	store   atomic.Pointer[deadletter.Store] // nil until it could be opened

	changes atomic.Uint64 // requests that have changed letters
	waker   atomic.Pointer[context.CancelCauseFunc]
}

func newLetters(queue queueFacts, sink SinkConfig, log *slog.Logger) *letters {
	return &letters{
		dir:     filepath.Join(queue.directory, DeadLettersDirectory, sink.Name),
		options: deadletter.Options{MaxBytes: int64(sink.DeadLetters.MaxBytes), Log: log},
		log:     log,
	}
}

// open returns the store, and opens it first where that has not succeeded yet.
func (l *letters) open() (*deadletter.Store, error) {
	if s := l.store.Load(); s != nil {
		return s, nil
	}
	l.opening.Lock()
	defer l.opening.Unlock()
	if l.closed {
		return nil, fmt.Errorf("%w: %w", errLetters, ErrStopping)
	}
	if s := l.store.Load(); s != nil {
		return s, nil
	}
	s, err := deadletter.Open(l.dir, l.options)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errLetters, err)
	}
	l.store.Store(s)
	l.tellOfBound(s.Stats())
	return s, nil
}

// close closes the store: afterwards the queue may be another's.
func (l *letters) close() {
	l.opening.Lock()
	defer l.opening.Unlock()
	l.closed = true
	s := l.store.Load()
	if s == nil {
		return
	}
	if err := s.Close(); err != nil {
		l.log.Warn("dead letters: close failed", "error", err)
	}
}

// with calls do with the store.
func (l *letters) with(do func(*deadletter.Store) error) error {
	s, err := l.open()
	if err != nil {
		return err
	}
	if err := do(s); err != nil {
		return fmt.Errorf("%w: %w", errLetters, err)
	}
	l.tellOfBound(s.Stats())
	return nil
}

// tellOfBound logs that the letters are near their bound.
func (l *letters) tellOfBound(s deadletter.Stats) {
	near := nearlyFull(s.Bytes, s.MaxBytes)
	was := l.isNear.Swap(near || l.isNear.Load() && s.Bytes >= s.MaxBytes/10*7) // one letter more or less is no news
	if near && !was {
		l.log.Warn("dead letters are nearly full: when they are full, the next rejected record stops the sink",
			"letters", s.Letters, "bytes", s.Bytes, "bound", config.Size(s.MaxBytes).String())
	}
}

// stats describes the store. It waits for no disk.
func (l *letters) stats() deadletter.Stats {
	if s := l.store.Load(); s != nil {
		return s.Stats()
	}
	return deadletter.Stats{}
}

// add keeps letters durably.
func (l *letters) add(list []deadletter.Letter) error {
	return l.with(func(s *deadletter.Store) error { return s.Add(list) })
}

// putBack keeps letters that were redriven and are rejected again, but for those that were purged
// meanwhile.
func (l *letters) putBack(list []deadletter.Letter) error {
	return l.with(func(s *deadletter.Store) error { return s.Return(list) })
}

// next returns letters to deliver again, at most as many as lim allows. A letter whose
// record is not before the sink's place has to wait for that: the account does not know of it.
func (l *letters) next(before uint64, lim sinks.BatchLimits) (list []deadletter.Letter, err error) {
	err = l.with(func(s *deadletter.Store) error {
		list, err = s.NextRedriving(before, lim.MaxRecords, int(lim.MaxBytes))
		return err
	})
	return list, err
}

// remove removes letters.
func (l *letters) remove(seqs []uint64) error {
	return l.with(func(s *deadletter.Store) error {
		_, err := s.Remove(seqs)
		return err
	})
}

// forgetPending removes the letters of records from first to last, which the queue
// has just returned: they are pending, and their fate is decided anew. A crash before
// their settlement leaves such letters, and a replay meets them. That is durable on nil. One
// that cannot be removed is replaced at the next rejection.
func (l *letters) forgetPending(first, last uint64) error {
	if l.count(first, last+1) == 0 {
		return nil
	}
	seqs := make([]uint64, 0, last+1-first)
	for seq := first; seq <= last; seq++ {
		seqs = append(seqs, seq)
	}
	err := l.remove(seqs)
	if err == nil {
		l.said.Works()
	} else if l.said.Fails(outage.Cause(err)) { // not for each batch
		l.log.Warn("cannot remove dead letters whose records are pending again", "firstSeq", first, "lastSeq", last, "error", err)
	}
	return err
}

// has reports whether there is a letter of seq.
func (l *letters) has(seq uint64) bool { return l.count(seq, seq+1) > 0 }

// count returns how many letters have a seq in [from, to).
func (l *letters) count(from, to uint64) uint64 {
	if s := l.store.Load(); s != nil {
		return s.Count(from, to)
	}
	return 0
}

// waiting returns a context that is done, with errNothing, once a request has changed letters since
// there were so many changes.
func (l *letters) waiting(ctx context.Context, changes uint64) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	l.waker.Store(&cancel)
	if l.changes.Load() != changes {
		cancel(errNothing)
	}
	return ctx, cancel
}

// wake has the delivery look at the letters.
func (l *letters) wake() {
	l.changes.Add(1)
	if cancel := l.waker.Load(); cancel != nil {
		(*cancel)(errNothing)
	}
}

// letters returns the dead letters of the sink called name, nil when there is no
// such sink.
func (e *Exporter) letters(name string) *letters {
	if d := e.parts().delivery(name); d != nil {
		return d.letters
	}
	return nil
}

// get returns the letter that id names with its record.
func (l *letters) get(id string) (letter deadletter.Letter, ok bool, err error) {
	err = l.with(func(s *deadletter.Store) error {
		seq, found, err := s.Find(id)
		if err != nil || !found {
			return err
		}
		letter, ok, err = s.Get(seq)
		return err
	})
	return letter, ok, err
}

// redrive has letters delivered again, all of them when seqs is nil, and returns
// how many. That is durable on return.
func (l *letters) redrive(seqs []uint64) (n int, err error) {
	defer l.wake()
	err = l.with(func(s *deadletter.Store) error {
		n, err = s.Redrive(seqs)
		return err
	})
	return n, err
}

// purge gives letters up, all of them when seqs is nil, and returns how many. The account goes on
// counting them as dead-lettered.
func (l *letters) purge(seqs []uint64) (n int, err error) {
	defer l.wake()
	err = l.with(func(s *deadletter.Store) error {
		n, err = s.Remove(seqs)
		return err
	})
	return n, err
}
