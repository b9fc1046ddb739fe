package exporter

import (
	"slices"
	"sync"
	"sync/atomic"
)

// tails are those who follow what becomes of the records of one sink; see admintail.go. While
// there are none a delivery looks at one number a batch. Safe for concurrent use.
type tails struct {
	followers atomic.Int32

	mu   sync.Mutex
	list []*fates // guarded by mu
}

// fate is what has become of the records of one batch.
type fate struct {
	first, last uint64
	filtered    []uint64 // seqs, in order, as are
	rejected    []uint64
	asRejected  string // what a rejected record is
}

// The fates of a record.
const (
	wasDelivered    = "delivered"
	wasFiltered     = "filtered"
	wasDeadLettered = "deadLettered"
	wasDropped      = "dropped"
)

func (f *fate) of(seq uint64) string {
	if _, found := slices.BinarySearch(f.filtered, seq); found {
		return wasFiltered
	}
	if _, found := slices.BinarySearch(f.rejected, seq); found {
		return f.asRejected
	}
	return wasDelivered
}

func (f *fate) size() uint64 { return f.last + 1 - f.first }

// fates are those that one follower has yet to read, tailWindow records at most.
type fates struct {
	news chan struct{} // holds a token while there is something

	mu     sync.Mutex
	list   []fate // in the order in which they were decided; guarded by mu
	missed uint64 // records; guarded by mu
}

// follow adds a follower, until leave is called.
func (t *tails) follow() (f *fates, leave func()) {
	f = &fates{news: make(chan struct{}, 1)}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.list = append(t.list, f)
	t.followers.Store(int32(len(t.list)))
	return f, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.list = slices.DeleteFunc(t.list, func(o *fates) bool { return o == f })
		t.followers.Store(int32(len(t.list)))
	}
}

// isFollowed reports whether anybody wants to know. A nil t is never followed.
func (t *tails) isFollowed() bool { return t != nil && t.followers.Load() > 0 }

// decided tells the followers. It does not wait for them.
func (t *tails) decided(f fate) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, follower := range t.list {
		follower.add(f)
	}
}

// add takes news; what was decided longest ago gives way.
func (f *fates) add(news fate) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = append(f.list, news)
	f.bound()
}

// putBack returns what there was no time for.
func (f *fates) putBack(rest []fate) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = slices.Concat(rest, f.list)
	f.bound()
}

// bound gives up what is beyond the window, and says that there is something. Callers hold
// mu.
func (f *fates) bound() {
	var size uint64
	first := len(f.list)
	for first > 0 && (first == len(f.list) || size+f.list[first-1].size() <= tailWindow) {
		first--
		size += f.list[first].size()
	}
	for _, lost := range f.list[:first] {
		f.missed += lost.size()
	}
	f.list = slices.Delete(f.list, 0, first)
	select {
	case f.news <- struct{}{}:
	default:
	}
}

// take returns what there is, and how many records were given up before.
func (f *fates) take() (list []fate, missed uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	list, missed = f.list, f.missed
	f.list, f.missed = nil, 0
	return list, missed
}
