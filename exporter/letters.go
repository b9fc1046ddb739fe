package exporter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/exporter/deadletter"
	"github.com/docket-export/docket/exporter/queue"
)

// errLetters says that dead letters could not be read or written.
var errLetters = errors.New("dead letters")

// errPurged says that a letter was purged while it was on its way.
var errPurged = errors.New("purged meanwhile")

// What ends the wait for records.
var (
	errWanted  = errors.New("dead letters are to be delivered again")
	errNothing = errors.New("there is no record")
)

// account is what the queue knows of a sink's records.
type account interface {
	// Account is the sink's place and what has become of the records before.
	Account() queue.Account
	// CountSetAside has the account ask count what became of the records that were set
	// aside, and returns how many of them are gone. count must not call the queue.
	CountSetAside(count func(next uint64) (kept, redriving uint64)) (dropped uint64)
	// Redelivered counts n records that were set aside as delivered, and calls remove
	// once that is durable. After an error nothing is counted.
	Redelivered(ctx context.Context, n uint64, remove func() error) error
}

// letters are the dead letters of one sink, together with what its account says of
// them: the two change together. A letter with a seq that the sink has not passed
// counts as pending still: a crash came between the letter and the account, or a
// replay goes over it.
type letters struct {
	dir     string
	options deadletter.Options
	account account
	log     *slog.Logger
	metrics *deliveryMetrics

	mu        sync.Mutex
	changed   chan struct{}     // closed when letters have gone or are to be redriven; guarded by mu
	store     *deadletter.Store // nil until it could be opened; guarded by mu
	closed    bool              // no store is opened any more; guarded by mu
	isNear    bool              // its bound was told of; guarded by mu
	interrupt func()            // ends the wait for records; nil: nobody waits; guarded by mu

	redriving sync.Mutex // held by the one who redrives
	// underWay are the letters being sent again, less those that were rejected or
	// purged meanwhile. It says of each whether the destination has accepted it: such
	// a one has only to be removed, and is not sent once more. Guarded by mu.
	underWay map[uint64]bool
	purged   chan struct{} // closed when one of underWay is purged; guarded by mu

	known atomic.Pointer[deadletter.Stats] // of the store, for those who must not wait for a disk
}

func newLetters(directory string, sink SinkConfig, a account, m *deliveryMetrics, log *slog.Logger) *letters {
	return &letters{
		dir:     filepath.Join(directory, DeadLettersDirectory, sink.Name),
		options: deadletter.Options{MaxBytes: int64(sink.DeadLetters.MaxBytes), Log: log},
		account: a,
		log:     log,
		metrics: m,
		changed: make(chan struct{}),
	}
}

// isOpen says whether the store could be opened.
func (l *letters) isOpen() bool { return l.known.Load() != nil }

// change returns a channel that is closed when letters have gone or are to be
// redriven.
func (l *letters) change() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

// tellChange closes that channel, and ends the wait for records. Callers hold mu.
func (l *letters) tellChange() {
	close(l.changed)
	l.changed = make(chan struct{})
	if l.interrupt != nil {
		l.interrupt()
	}
}

// open returns the store. Callers hold mu.
func (l *letters) open() (*deadletter.Store, error) {
	if l.closed {
		return nil, fmt.Errorf("%w: %w", errLetters, errStopping)
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
		l.log.Warn("dead letters: close", "error", err)
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

// tellOfBound raises the alarm before the bound is met. Callers hold mu.
func (l *letters) tellOfBound(s deadletter.Stats) {
	near := nearlyFull(s.Bytes, s.MaxBytes)
	if near && !l.isNear {
		l.log.Warn("dead letters are nearly full: at their bound the sink stops at the next rejected record",
			"letters", s.Letters, "bytes", s.Bytes, "bound", config.Size(s.MaxBytes).String())
	}
	l.isNear = near
}

// settled is called once records that were set aside are settled: those among them that
// wait to be sent again can go now.
func (l *letters) settled() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.store != nil && l.store.Stats().Redriving > 0 {
		l.tellChange()
	}
}

// add keeps letters durably. Those that came from here and were rejected again are
// dead letters again; none of them when one was purged meanwhile: that one is given up,
// and must not come back to be given up once more.
func (l *letters) add(list []deadletter.Letter, redriven bool) error {
	return l.with(func(s *deadletter.Store) error {
		if redriven && slices.ContainsFunc(list, func(letter deadletter.Letter) bool { return !l.isUnderWay(letter.Seq) }) {
			return errPurged
		}
		if err := s.Add(list); err != nil {
			return err
		}
		if redriven {
			l.leave(seqsOf(list))
		}
		return nil
	})
}

// forgetPending removes the letters of records from first to last, which the queue
// has just returned: they are pending, and what becomes of them is decided anew.
// Such letters are there after a crash before their settlement, and when a replay
// goes over them. One that cannot be removed is replaced at the next rejection.
func (l *letters) forgetPending(first, last uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.store == nil {
		return
	}
	if kept, redriving := l.store.Counts(first, last+1); kept+redriving == 0 {
		return
	}
	seqs := make([]uint64, 0, last+1-first)
	for seq := first; seq <= last; seq++ {
		seqs = append(seqs, seq)
	}
	_, err := l.store.Remove(seqs)
	l.look()
	if err != nil {
		l.log.Warn("dead letters of records that are delivered again cannot be removed", "firstSeq", first, "lastSeq", last, "error", err)
	}
}

func seqsOf(list []deadletter.Letter) []uint64 {
	seqs := make([]uint64, len(list))
	for i, l := range list {
		seqs[i] = l.Seq
	}
	return seqs
}

// untilWanted returns a context that ends when there is something to redrive.
func (l *letters) untilWanted(ctx context.Context) (awake context.Context, stop func()) {
	awake, cancel := context.WithCancelCause(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.interrupt = func() { cancel(errWanted) }
	return awake, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.interrupt = nil
		cancel(nil)
	}
}

// unlessWanted is err, or nil when the wait has ended in order.
func unlessWanted(err error) error {
	if errors.Is(err, errWanted) || errors.Is(err, errNothing) {
		return nil
	}
	return err
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
	i := slices.IndexFunc(e.deliveries, func(d *delivery) bool { return d.cfg.Name == name })
	if i < 0 {
		return nil
	}
	return e.deliveries[i].letters
}

// get returns the letter of seq with its record.
func (l *letters) get(seq uint64) (letter deadletter.Letter, ok bool, err error) {
	err = l.with(func(s *deadletter.Store) error {
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
// account counts them as dropped.
func (l *letters) purge(seqs []uint64) (n int, err error) {
	err = l.with(func(s *deadletter.Store) error {
		if n, err = s.Remove(seqs); err != nil {
			return err
		}
		l.metrics.droppedPurged.Add(uint64(n))
		gone := seqs
		if seqs == nil {
			gone = slices.Collect(maps.Keys(l.underWay))
		}
		if l.leave(gone) {
			close(l.purged)
			l.purged = make(chan struct{})
		}
		l.tellChange()
		return nil
	})
	return n, err
}

var _ account = (*queue.Cursor)(nil)
