package queue

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
	"time"

	"github.com/google/uuid"

	"github.com/docket-export/docket/exporter/queue/segment"
	"github.com/docket-export/docket/exporter/queue/state"
	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/internal/lineage"
	"github.com/docket-export/docket/internal/outage"
	"github.com/docket-export/docket/internal/signal"
)

// Options configure a queue.
type Options struct {
	// Directory holds everything. It is made when missing.
	Directory string
	// MaxBytes bounds the files of segments; 0 means no bound. A record
	// that is larger than a segment can exceed it, and so can a segment that
	// replaces one that failed or was cut by a crash.
	MaxBytes int64
	// SegmentBytes is the size of a segment's file, at most an eighth of
	// MaxBytes; 0 picks one that suits MaxBytes and the file system.
	SegmentBytes int64
	// WhenFull is what Append does at MaxBytes; the zero value blocks.
	WhenFull WhenFull
	// MinFreeBytes is what the queue leaves free on the file system: below it no
	// new segment is made. Negative: the smaller of 64 MiB and 5 % of the file
	// system.
	MinFreeBytes int64
	// Producers is how many producers are remembered of each source and identity; 0:
	// state.DefaultProducers. See state.PositionsBytes.
	Producers int
	// Retain keeps records that every sink has passed.
	Retain Retain
	// Committed, when not nil, is called after every commit: with the number of
	// records that are durable by it, and the time that the write and the sync
	// took. It must not block.
	Committed func(records int, took time.Duration)
	Log       *slog.Logger // nil: no log
	FS        disk.FS      // nil: the operating system's
}

// WhenFull is what Append does when the queue has reached MaxBytes.
type WhenFull int

// The choices of Options.WhenFull.
const (
	Block      WhenFull = iota // wait for room
	DropOldest                 // give up the oldest records that a sink still waits for
)

// Retain says how long the queue keeps records that every sink has passed, for
// replays. The zero value keeps none. Retained records never displace new ones:
// the queue removes them when it needs the space.
type Retain struct {
	MaxAge   time.Duration // since they were received; 0: no bound
	MaxBytes int64         // of their segments; 0: no bound
}

func (r Retain) isOn() bool { return r.MaxAge > 0 || r.MaxBytes > 0 }

func (o *Options) setDefaults() {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.FS == nil {
		o.FS = disk.OS(o.Directory)
	}
}

// Errors of the queue.
var (
	// ErrClosed says that the queue is closed.
	ErrClosed = errors.New("queue: closed")
)

// Queue is a durable log of records, with a cursor for each sink. Its methods
// may be called at the same time.
//
// Its fields are in groups by what guards them. Locks are taken in the order turn, mu.
type Queue struct {
	// opts are set by Open, as are the next five. Those that Reconfigure changes are guarded
	// by mu from then on.
	opts Options
	id   uuid.UUID
	// lineage ends with the incarnation that this process is.
	lineage lineage.Lineage
	lock    disk.Lock
	// tornTails is how many ends of the log Open has cut.
	tornTails int
	// unattributed is that of Stats.
	unattributed uint64

	published
	tokens

	mu    sync.Mutex
	books // guarded by mu

	// turn is held to make a commit, or to end the making of them: by the commit loop and
	// by AppendNow.
	turn      sync.Mutex
	committer committer // guarded by turn

	pool       *segmentPool // has a lock of its own
	quarantine quarantine
	janitor    janitor
	done       sync.WaitGroup
}

// published is what cursors read without a lock.
type published struct {
	// segments are those kept, in order, the last being written to. The slice is
	// replaced, never changed: by the committer and the janitor, under mu.
	segments atomic.Pointer[[]*liveSegment]
	// durable is the seq of the last record that is safe: nothing beyond it is ever
	// shown to a cursor.
	durable   atomic.Uint64
	committed signal.Signal // broadcast when durable has moved
}

// books are what the queue knows of its records and its sinks. Guarded by Queue.mu.
type books struct {
	pending *commit // what the next commit writes
	spare   *commit // the buffers of the commit before
	// lastLarge is when the last commit of largeCommit bytes or more was made.
	lastLarge time.Time
	state     *state.State
	space     space
	failed    error // Stats.Err
	said      outage.Log
	since     time.Time // of failed
	lost      error     // a *LostError while the directory is lost
	cursors   map[string]*Cursor
	// parked are the accounts of sinks that have no cursor now: their records are kept
	// all the same.
	parked map[string]Account
	// accountsLost says that the queue was found without a cursors file that can be used: a
	// sink without an account may have had one.
	accountsLost bool
	closed       bool
}

// tokens wake the loops and those who wait for them. A channel of one holds a token
// until its loop has taken it.
type tokens struct {
	work    chan struct{} // for the commit loop: pending is not empty
	dirty   chan struct{} // for the janitor: there is something to do
	urgent  chan struct{} // for the janitor: somebody waits for it
	prepare chan struct{} // for the prepare loop: the next segment's file may be missing
	room    signal.Signal // broadcast when Append may find room again
	stop    chan struct{} // closed by Close
	// recovered is closed once everything that was found in the log is durable.
	recovered chan struct{}
}

// Stats is a momentary view of a queue.
type Stats struct {
	ID       string
	FirstSeq uint64 // first kept record; LastSeq+1 when there is none
	LastSeq  uint64
	Bytes    int64 // of the segments
	Full     bool  // records wait or are refused, because MaxBytes is reached
	Free     int64 // bytes of records until it is full; retained segments count as free
	// LastDrop is when DropOldest last gave up records; zero when it never did.
	LastDrop time.Time
	// TornTails is how many ends of the log a crash had left unfinished, and Open
	// has cut: 0 or 1.
	TornTails int
	Corrupt   uint64
	// Err is why the last write failed, nil when it succeeded. Since is when the first one
	// failed. Nothing in a failed write is acknowledged: the queue writes it to another
	// segment, again and again until a write succeeds.
	Err     error
	Since   time.Time
	Sources map[string]state.SourceTally
	// Unattributed is how many records have no known source, because damage took
	// their frames before the queue was opened. They count as received.
	Unattributed uint64
	Cursors      map[string]Account // parked ones included
	// Saved is Cursors as the disk has them; nil until they are written after the start. Read only.
	Saved map[string]Account
	// Parked are the names in Cursors that no sink reads.
	Parked []string
	// Lost are the ranges of records that damage has taken, in order.
	Lost []segment.SeqRange
}

// Open opens the queue in opts.Directory, or makes it. It fails with
// *state.InUseError when another process owns the queue. It repairs what a crash
// has left: see doc.go. The caller must call Close.
func Open(opts Options) (*Queue, error) {
	opts.setDefaults()
	dir := disk.On(opts.FS, opts.Directory)
	q := &Queue{
		opts:       opts,
		quarantine: quarantine{dir: dir, log: opts.Log},
		janitor:    janitor{dir: dir},
		books:      books{pending: &commit{}, spare: &commit{}, cursors: map[string]*Cursor{}},
		tokens: tokens{
			work:      make(chan struct{}, 1),
			dirty:     make(chan struct{}, 1),
			urgent:    make(chan struct{}, 1),
			prepare:   make(chan struct{}, 1),
			stop:      make(chan struct{}),
			recovered: make(chan struct{}),
		},
	}
	if err := dir.MakeDir(); err != nil {
		what, todo := disk.Advice(err, opts.Directory)
		if what == "" {
			todo = "the queue needs a directory that this user can write"
		}
		return nil, fmt.Errorf("queue %s: %w: %s", opts.Directory, err, todo)
	}
	lock, err := state.Lock(opts.FS, opts.Directory)
	if err != nil {
		return nil, err
	}
	q.lock = lock
	err = q.fitToDisk()
	if err == nil {
		err = q.recover()
	}
	if err != nil {
		q.janitor.close()
		return nil, errors.Join(fmt.Errorf("queue %s: %w", opts.Directory, err), q.lock.Close())
	}
	q.trim() // a process that is killed again and again must not fill the disk
	q.rewriteTail()
	q.committer.ended = make(chan struct{})
	q.done.Go(q.commitLoop)
	q.done.Go(q.janitorLoop)
	q.done.Go(q.prepareLoop)
	wake(q.prepare)
	return q, nil
}

// fitToDisk decides what depends on the file system.
func (q *Queue) fitToDisk() error {
	total, _, err := q.opts.FS.Space(q.opts.Directory)
	if err != nil {
		return fmt.Errorf("size of the file system: %w", err)
	}
	if q.opts.SegmentBytes == 0 {
		q.opts.SegmentBytes = segmentSize(q.opts.MaxBytes, total)
	}
	if q.opts.MaxBytes > 0 {
		q.opts.SegmentBytes = max(1, min(q.opts.SegmentBytes, q.opts.MaxBytes/leastSegments))
	}
	q.space.maxBytes, q.space.segmentBytes = q.opts.MaxBytes, q.opts.SegmentBytes
	q.pool = &segmentPool{fsys: q.opts.FS, dir: q.opts.Directory, size: q.opts.SegmentBytes}
	q.pool.minFree.Store(q.opts.MinFreeBytes)
	return nil
}

// Reconfigure sets MaxBytes, WhenFull, MinFreeBytes and Retain of an open queue to the
// values in o. fits is false, and MaxBytes stays, when the segments are too large for the
// new value: the next Open makes smaller ones.
func (q *Queue) Reconfigure(o Options) (fits bool) {
	q.mu.Lock()
	if fits = o.MaxBytes == 0 || o.MaxBytes/leastSegments >= q.opts.SegmentBytes; fits {
		q.opts.MaxBytes, q.space.maxBytes = o.MaxBytes, o.MaxBytes
	}
	q.opts.WhenFull, q.opts.Retain = o.WhenFull, o.Retain
	q.mu.Unlock()
	q.pool.minFree.Store(o.MinFreeBytes)
	wake(q.urgent)  // what is retained or dropped may be less now, or more
	wake(q.prepare) // there may be room for the next segment
	q.room.Broadcast()
	return fits
}

// Close writes what was appended, makes every cursor durable and releases the
// directory. When writes fail, it gives up chunks that are not acknowledged
// yet: no producer was told that they are safe. Once ctx is done Close no
// longer waits for the disk.
func (q *Queue) Close(ctx context.Context) error {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return nil
	}
	q.closed = true
	q.mu.Unlock()
	close(q.stop)
	q.room.Broadcast()
	q.committed.Broadcast()

	ended := make(chan struct{})
	go func() { q.done.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-ctx.Done():
		return fmt.Errorf("queue: close: %w", context.Cause(ctx))
	}
	return errors.Join(q.janitor.err, q.lock.Close())
}

// ID is the UUID of the queue, made once. Copies of the queue have the same.
func (q *Queue) ID() string { return q.id.String() }

// Lineage says which ids the records have. It ends with the incarnation that this Open has begun,
// which stores what is appended.
func (q *Queue) Lineage() lineage.Lineage { return q.lineage }

// LastSeq is the seq of the last durable record, 0 when there never was one.
func (q *Queue) LastSeq() uint64 { return q.durable.Load() }

// Position says which lines of p were received and durably decided. known is false
// when the producer was never seen or has been forgotten. After a crash, on a disk
// that refuses writes, Position waits until a write succeeds: before that, the end of
// the log is undecided.
func (q *Queue) Position(ctx context.Context, p Producer) (n state.Numbers, known bool, err error) {
	select {
	case <-q.recovered:
	case <-q.stop:
		return state.Numbers{}, false, ErrClosed
	case <-ctx.Done():
		return state.Numbers{}, false, fmt.Errorf("queue: position: %w", context.Cause(ctx))
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	n, known = q.state.Producers.Find(p)
	return n, known, nil
}

// Hold keeps p from being forgotten, however long it is silent and however many others come,
// until Release.
func (q *Queue) Hold(p Producer) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.state.Producers.Hold(p)
}

// Release undoes Hold. From now on p may be forgotten after a day, or when others of its
// source and identity need the room.
func (q *Queue) Release(p Producer) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.state.Producers.Release(p, time.Now())
}

// Stats returns a view of the queue that is consistent in itself: no cursor is
// beyond LastSeq.
func (q *Queue) Stats() Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := Stats{
		ID:      q.id.String(),
		Corrupt: q.state.Corrupt(),
		Err:     q.failed,
		Since:   q.since,
		Sources: make(map[string]state.SourceTally, len(q.state.Sources)),
		Cursors: q.accounts(),
		Saved:   q.janitor.written,
		Bytes:   q.bytes(),
		Parked:  slices.Sorted(maps.Keys(q.parked)),
		Lost:    slices.Clone(q.state.Lost),
	}
	for name, t := range q.state.Sources {
		s.Sources[name] = t.Clone()
	}
	s.Full, s.Free = !q.hasRoom(max(q.space.turnedAway, 1)), q.free()
	s.LastDrop, s.TornTails = q.space.lastDrop, q.tornTails
	s.LastSeq, s.Unattributed = q.durable.Load(), q.unattributed
	s.FirstSeq = q.firstKept()
	return s
}

// accounts returns the account of every sink the queue knows. Callers hold mu.
func (b *books) accounts() map[string]Account {
	all := make(map[string]Account, len(b.parked)+len(b.cursors))
	maps.Copy(all, b.parked)
	for name, c := range b.cursors {
		all[name] = c.account
	}
	return all
}

// firstKept is the seq of the first record that is still on disk, or that of the
// next one when none is.
func (p *published) firstKept() uint64 {
	if segments := *p.segments.Load(); len(segments) > 0 {
		return segments[0].FirstSeq
	}
	return p.durable.Load() + 1
}

func (q *Queue) path(name ...string) string {
	return filepath.Join(append([]string{q.opts.Directory}, name...)...)
}

// wake puts a token into a channel that holds at most one.
func wake(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
