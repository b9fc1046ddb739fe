package queue

import (
	"errors"
	"math"
	"slices"
	"syscall"
	"time"
)

const (
	// defaultSegmentBytes is a trade: every segment costs a rename and its sync,
	// which at half the size takes a tenth of the rate and at a quarter a third
	// (measured), and it is idle space and the time to read it at Open.
	defaultSegmentBytes = 64 << 20
	minSegmentBytes     = 1 << 20
	// segmentsPerQueue keeps a small queue, or one on a small volume, from being
	// two segments: space comes back one segment at a time.
	segmentsPerQueue = 16
	// leastSegments is what a queue needs to be more than the segment in use and
	// those that are kept for counts.
	leastSegments = 8
	// keptForCounts is how many segments a full queue keeps from records: frames
	// that only count are taken always, and go through two segments in turn.
	keptForCounts = 2
	// segmentsAhead is how many segments may be begun before retained records are
	// asked to go.
	segmentsAhead = keptForCounts + 2
)

// space is what the queue knows of its room beside what the segment pool has. Guarded by
// Queue.mu.
type space struct {
	maxBytes, segmentBytes int64 // those of Options, set by Open

	// left is what is left of the active segment once the commit under way is in
	// it, and claimed is 1 when that has yet to begin one.
	left    int64
	claimed int64
	// files is the size of the files of all segments.
	files int64
	// beginning is the size of the segment that has no name yet, and leaving that
	// of files which are no longer part of the queue and still take space.
	beginning int64
	leaving   int64
	// turnedAway is the size of the chunk that found no room, 0 when there is
	// room.
	turnedAway int
	evicted    bool // a segment did since the last failed write
	closeLast  bool // the committer is asked to close the active segment
	stuck      bool // the janitor could not do its work last time
	lastDrop   time.Time
}

// segmentSize is what suits a queue of maxBytes, 0 for no bound, on a file system
// of total bytes.
func segmentSize(maxBytes, total int64) int64 {
	limit := total
	if maxBytes > 0 {
		limit = min(maxBytes, total)
	}
	return min(defaultSegmentBytes, max(minSegmentBytes, limit/segmentsPerQueue&^(1<<20-1)))
}

const (
	defaultMinFree = 64 << 20
	// minFreeShare is the share of the file system that stays free by default.
	minFreeShare = 20
)

// minFreeOf is what Options.MinFreeBytes keeps free on a file system of total bytes.
func minFreeOf(minFreeBytes, total int64) int64 {
	if minFreeBytes >= 0 {
		return minFreeBytes
	}
	return min(defaultMinFree, total/minFreeShare)
}

// hasRoom reports whether a chunk of records of size bytes may be taken. Callers
// hold mu.
//
// Files have one size and are made before they are filled, so what counts is how
// many more may be begun, not how many bytes may be written.
func (q *Queue) hasRoom(size int) bool {
	if q.opts.MaxBytes == 0 || q.isEmpty() {
		return true
	}
	need := int64(keptForCounts)
	if q.space.left < int64(len(q.pending.buf)+size) {
		need++
	}
	return q.space.available(0) >= need
}

// isEmpty reports whether there is no segment, now or soon. Callers hold mu.
func (q *Queue) isEmpty() bool {
	return len(*q.segments.Load()) == 0 && q.space.claimed+q.space.beginning+q.space.leaving == 0 && len(q.pending.buf) == 0
}

// available is how many more segments may be begun when files of so many bytes have gone.
// Callers hold mu.
func (s *space) available(going int64) int64 {
	if s.maxBytes == 0 {
		return math.MaxInt64
	}
	room := s.maxBytes - s.files - s.beginning - s.leaving + going
	return max(0, room)/s.segmentBytes - s.claimed
}

// canGrow reports whether another file may be made.
func (q *Queue) canGrow() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.space.available(0) > 0
}

// setSegments makes segments those of the queue. Callers hold mu, or are Open.
func (q *Queue) setSegments(segments []*liveSegment) {
	q.segments.Store(&segments)
	q.space.countFiles(segments)
}

// countFiles adds up the files of all segments once they have changed, so that
// Append need not. Callers hold mu, or are Open.
func (s *space) countFiles(segments []*liveSegment) {
	s.files = 0
	for _, kept := range segments {
		s.files += kept.size.Load()
	}
}

// bytes is what the segments take that can be used for nothing else: the files of
// those that are full, and the frames of the last. Callers hold mu.
func (q *Queue) bytes() int64 {
	segments := *q.segments.Load()
	if len(segments) == 0 {
		return 0
	}
	last := segments[len(segments)-1]
	return q.space.files - last.size.Load() + last.end.Load()
}

// free is how many bytes of records the queue takes until it is full. Segments that every
// sink has passed count as free: they are retained only until their room is needed.
// Callers hold mu.
func (q *Queue) free() int64 {
	if q.opts.MaxBytes == 0 {
		return math.MaxInt64
	}
	accounts := q.accounts()
	going := q.space.leaving
	for _, s := range *q.segments.Load() {
		if q.isDone(s, accounts) {
			going += s.size.Load()
		}
	}
	files := max(0, q.space.available(going)-keptForCounts)
	return files*q.space.segmentBytes + max(0, q.space.left-int64(len(q.pending.buf)))
}

// isFull reports whether a chunk was turned away that there is still no room for.
// Callers hold mu.
func (q *Queue) isFull() bool { return q.space.turnedAway > 0 && !q.hasRoom(q.space.turnedAway) }

// isMakingRoom reports whether there will be room as soon as the janitor has
// done its work, which no sink can hold up. Callers hold mu.
func (q *Queue) isMakingRoom() bool {
	if q.space.stuck {
		return false
	}
	accounts := q.accounts()
	going := q.space.leaving
	for _, s := range *q.segments.Load() {
		if q.isPassed(s, accounts) {
			going += s.size.Load()
		}
	}
	return q.space.available(going) > keptForCounts
}

// isFullDisk reports whether err says that the disk, or what this user may have of
// it, is used up.
func isFullDisk(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// needsRoom reports whether new records wait for segments to go. Callers hold mu.
func (q *Queue) needsRoom() bool {
	return q.isFull() || isFullDisk(q.failed)
}

// evict lets go of the oldest segment for the sake of new records: one that is
// only retained or, where the operator has chosen that, one that sinks still wait
// for. The segment goes in the next round. evict returns false when no records
// wait, or nothing can be done for them. On a full disk it gives up one segment for
// each attempt to write.
func (q *Queue) evict() bool {
	q.mu.Lock()
	if !q.needsRoom() || q.failed != nil && q.space.evicted {
		q.mu.Unlock()
		return false
	}
	s := q.evictable()
	if s == nil {
		q.closeForRoom()
		q.mu.Unlock()
		return false
	}
	q.space.evicted = true
	s.released = true
	isNews := q.drop(s)
	q.mu.Unlock()
	if isNews {
		q.opts.Log.Warn("queue is full: the oldest records are dropped for new ones, although sinks have not delivered them",
			"firstSeq", s.FirstSeq, "lastSeq", q.untilOf(s)-1)
	}
	return true
}

// closeForRoom has the committer close the active segment where that lets it go.
// Callers hold mu.
func (q *Queue) closeForRoom() {
	kept := *q.segments.Load()
	if len(kept) == 0 || kept[len(kept)-1].sealed {
		return
	}
	last := kept[len(kept)-1]
	if q.opts.WhenFull == DropOldest && len(kept) == 1 || q.isPassed(last, q.accounts()) && q.isMakingRoom() {
		q.space.closeLast = true
		wake(q.work)
	}
}

// evictable is the segment to give way, nil when none may. Callers hold mu.
func (q *Queue) evictable() *liveSegment {
	accounts := q.accounts()
	for _, s := range *q.segments.Load() {
		switch {
		case s.released || !s.sealed:
		case q.isDone(s, accounts) && q.opts.Retain.isOn():
			return s
		case q.isDone(s, accounts):
			return nil // it goes already
		case q.opts.WhenFull == DropOldest:
			return s
		}
	}
	return nil
}

// drop passes what sinks still wait for in s, if anything. isNews says that no drop came
// shortly before. Callers hold mu.
func (q *Queue) drop(s *liveSegment) (isNews bool) {
	until := q.untilOf(s)
	if q.isDone(s, q.accounts()) {
		return false
	}
	isNews = q.space.lastDrop.IsZero() || time.Since(q.space.lastDrop) > dropEpisode
	q.space.lastDrop = time.Now()
	for name, a := range q.parked {
		q.dropUntil(&a, until)
		q.parked[name] = a
	}
	for _, c := range q.cursors {
		q.dropUntil(&c.account, until)
		c.forgetDone()
		if len(c.outstanding) == 0 {
			c.gathering.received = s.newest.Load() // the sink may hold on to what was dropped for long
		}
	}
	return isNews
}

// dropEpisode is the pause after which dropping is news again.
const dropEpisode = time.Minute

// dropUntil counts what a has not passed as dropped or, where damage has taken
// it, as corrupt. Callers hold mu.
func (b *books) dropUntil(a *Account, until uint64) {
	for _, l := range b.state.Lost {
		if from, to := max(l.From, a.Next), min(l.To, until); from < to {
			a.DropForRoom(from - a.Next)
			a.Corrupt += to - from
			a.Next = to
		}
	}
	if a.Next < until {
		a.DropForRoom(until - a.Next)
		a.Next = until
	}
}

// untilOf is the seq after the last record of s, as of now. Callers hold mu.
func (p *published) untilOf(s *liveSegment) uint64 {
	return min(s.until.Load(), p.durable.Load()+1)
}

// isDone reports whether nothing in s is needed any more: every account has passed
// it, or it has no records. Callers hold mu.
func (q *Queue) isDone(s *liveSegment, accounts map[string]Account) bool {
	return s.sealed && q.isPassed(s, accounts)
}

// isPassed is isDone for a segment that is still written to, too. Callers hold mu.
func (q *Queue) isPassed(s *liveSegment, accounts map[string]Account) bool {
	until := q.untilOf(s)
	if until == s.FirstSeq {
		return true
	}
	for _, a := range accounts {
		if a.Next < until {
			return false
		}
	}
	// Without any sink nobody has said to be done.
	return len(accounts) > 0 || s.released && q.opts.WhenFull == DropOldest
}

// retained returns the segments of done, in order, that stay for Retain: the
// newest ones within its bounds, as long as new records have room. Callers hold
// mu.
func (q *Queue) retained(done []*liveSegment) map[*liveSegment]bool {
	stay := map[*liveSegment]bool{}
	r := q.opts.Retain
	if !r.isOn() {
		return stay
	}
	var bytes int64
	for _, s := range slices.Backward(done) {
		if q.untilOf(s) == s.FirstSeq {
			continue // it has no records
		}
		bytes += s.size.Load()
		if s.released || r.MaxBytes > 0 && bytes > r.MaxBytes ||
			r.MaxAge > 0 && time.Since(time.Unix(0, s.newest.Load())) > r.MaxAge {
			break
		}
		stay[s] = true
	}
	for _, s := range done {
		if stay[s] && q.space.available(0) < segmentsAhead-int64(len(done)-len(stay)) {
			delete(stay, s)
		}
	}
	return stay
}
