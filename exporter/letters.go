package exporter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/exporter/deadletter"
	"github.com/docket-export/docket/exporter/queue"
	"github.com/docket-export/docket/internal/outage"
	"github.com/docket-export/docket/sinks"
)

// errLetters says that dead letters could not be read or written.
var errLetters = errors.New("dead letters")

// errPurged says that a letter was purged while it was on its way.
var errPurged = errors.New("purged meanwhile")

// account is what the queue knows of a sink's records.
type account interface {
	// Account is the sink's place and the fate of the records before.
	Account() queue.Account
	// CountSetAside has the account ask count for the records that were set aside, and
	// returns how many of them are gone. count must not call the queue.
	CountSetAside(count func(next uint64) (kept, redriving uint64)) (dropped uint64)
	// Redelivered counts n records that were set aside as delivered, and calls remove
	// once that is durable. After an error nothing is counted.
	Redelivered(ctx context.Context, n uint64, remove func() error) error
}

// letters are the dead letters of one sink. A letter with a seq that the sink has not
// passed counts as pending still: a crash came between the letter and the account, or a
// replay goes over it.
type letters struct {
	dir     string
	options deadletter.Options
	account account
	log     *slog.Logger
	metrics *deliveryMetrics
	said    outage.Log // of letters that cannot be removed

	mu      sync.Mutex
	changed chan struct{}     // closed when letters have gone or are to be redriven; guarded by mu
	store   *deadletter.Store // nil until it could be opened; guarded by mu
	closed  bool              // no store is opened any more; guarded by mu
	isNear  bool              // its bound was told of; guarded by mu

	known atomic.Pointer[deadletter.Stats] // of the store, for callers that must not wait for a disk
}

func newLetters(queue queueFacts, sink SinkConfig, a account, m *deliveryMetrics, log *slog.Logger) *letters {
	return &letters{
		dir:     filepath.Join(queue.directory, DeadLettersDirectory, sink.Name),
		options: deadletter.Options{Queue: queue.id, MaxBytes: int64(sink.DeadLetters.MaxBytes), Log: log},
		account: a,
		log:     log,
		metrics: m,
		changed: make(chan struct{}),
	}
}

// change returns a channel that is closed when letters have gone or are to be
// redriven.
func (l *letters) change() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

// tellChange closes that channel. Callers hold mu.
func (l *letters) tellChange() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// ready opens the store, so that the account counts with it.
func (l *letters) ready() error { return l.with(func(*deadletter.Store) error { return nil }) }

// open returns the store. Callers hold mu.
func (l *letters) open() (*deadletter.Store, error) {
	if l.closed {
		return nil, fmt.Errorf("%w: %w", errLetters, ErrStopping)
	}
	if l.store != nil {
		return l.store, nil
	}
	store, err := deadletter.Open(l.dir, l.options)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errLetters, err)
	}
	l.store = store
	dropped := l.account.CountSetAside(func(next uint64) (kept, redriving uint64) { return store.Counts(0, next) })
	l.metrics.droppedPurged.Add(dropped)
	l.look()
	return store, nil
}

// close closes the store: afterwards the queue may be another's.
func (l *letters) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.store == nil {
		return
	}
	if err := l.store.Close(); err != nil {
		l.log.Warn("dead letters: close failed", "error", err)
	}
	l.store = nil
}

// with calls do with the store.
func (l *letters) with(do func(*deadletter.Store) error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	store, err := l.open()
	if err != nil {
		return err
	}
	err = do(store)
	l.look()
	if err != nil {
		return fmt.Errorf("%w: %w", errLetters, err)
	}
	return nil
}

// look takes note of how many letters there are. Callers hold mu.
func (l *letters) look() {
	s := l.store.Stats()
	l.known.Store(&s)
	l.tellOfBound(s)
}

// tellOfBound logs that the letters are near their bound. Callers hold mu.
func (l *letters) tellOfBound(s deadletter.Stats) {
	near := nearlyFull(s.Bytes, s.MaxBytes)
	if near && !l.isNear {
		l.log.Warn("dead letters are nearly full: when they are full, the next rejected record stops the sink",
			"letters", s.Letters, "bytes", s.Bytes, "bound", config.Size(s.MaxBytes).String())
	}
	l.isNear = near || l.isNear && s.Bytes >= s.MaxBytes/10*7 // so that one letter more or less is no news
}

// wakeRedrive is called once records that were set aside are settled: those among them
// that wait to be sent again can go now.
func (l *letters) wakeRedrive() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.store != nil && l.store.Stats().Redriving > 0 {
		l.tellChange()
	}
}

// add keeps letters durably.
func (l *letters) add(list []deadletter.Letter) error {
	return l.with(func(s *deadletter.Store) error { return s.Add(list) })
}

// addAgain keeps letters that were redriving and are rejected again. It keeps none of
// them and fails with errPurged when one was purged meanwhile: that one is given up, and
// must not come back to be given up once more.
func (l *letters) addAgain(list []deadletter.Letter) error {
	return l.with(func(s *deadletter.Store) error {
		if slices.ContainsFunc(list, func(letter deadletter.Letter) bool { return !s.IsRedriving(letter.Seq) }) {
			return errPurged
		}
		return s.Add(list)
	})
}

// next returns letters to deliver again, at most as many as lim allows. A letter whose
// record is not settled has to wait for that: the account does not know of it.
func (l *letters) next(lim sinks.BatchLimits) (list []deadletter.Letter, err error) {
	if l.stats().Redriving == 0 {
		return nil, nil
	}
	err = l.with(func(s *deadletter.Store) error {
		list, err = s.NextRedriving(l.account.Account().Next, lim.MaxRecords, int(lim.MaxBytes))
		return err
	})
	return list, err
}

// redelivered removes letters that the destination has accepted. Those that were purged
// meanwhile count so.
func (l *letters) redelivered(ctx context.Context, seqs []uint64) error {
	return l.with(func(s *deadletter.Store) error {
		seqs = slices.DeleteFunc(slices.Clone(seqs), func(seq uint64) bool { return !s.Has(seq) })
		if len(seqs) == 0 {
			return nil
		}
		err := l.account.Redelivered(ctx, uint64(len(seqs)), func() error {
			_, err := s.Remove(seqs)
			return err
		})
		if err == nil {
			l.tellChange()
		}
		return err
	})
}

// forgetPending removes the letters of records from first to last, which the queue
// has just returned: they are pending, and their fate is decided anew. A crash before
// their settlement leaves such letters, and a replay meets them. That is durable on nil. One
// that cannot be removed is replaced at the next rejection.
func (l *letters) forgetPending(first, last uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.store == nil || first > last {
		return nil
	}
	if kept, redriving := l.store.Counts(first, last+1); kept+redriving == 0 {
		return nil
	}
	seqs := make([]uint64, 0, last+1-first)
	for seq := first; seq <= last; seq++ {
		seqs = append(seqs, seq)
	}
	_, err := l.store.Remove(seqs)
	l.look()
	if err == nil {
		l.said.Works()
	} else if l.said.Fails(outage.Cause(err)) { // not for each batch
		l.log.Warn("cannot remove dead letters whose records are pending again", "firstSeq", first, "lastSeq", last, "error", err)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errLetters, err)
	}
	return nil
}

// has reports whether there is a letter of seq.
func (l *letters) has(seq uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.store != nil && l.store.Has(seq)
}

// stats describes the store as it was after the last change.
func (l *letters) stats() deadletter.Stats {
	if s := l.known.Load(); s != nil {
		return *s
	}
	return deadletter.Stats{}
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
	err = l.with(func(s *deadletter.Store) error {
		n, err = s.Redrive(seqs)
		l.tellChange()
		return err
	})
	return n, err
}

// purge gives letters up, all of them when seqs is nil, and returns how many. The
// account counts those that the sink has passed as dropped; the records of the others are
// still pending.
func (l *letters) purge(seqs []uint64) (n int, err error) {
	err = l.with(func(s *deadletter.Store) error {
		next := l.account.Account().Next
		kept, redriving := s.Counts(0, next)
		before := kept + redriving
		if n, err = s.Remove(seqs); err != nil {
			return err
		}
		kept, redriving = s.Counts(0, next)
		l.metrics.droppedPurged.Add(before - kept - redriving)
		l.tellChange()
		return nil
	})
	return n, err
}

var _ account = (*queue.Cursor)(nil)
