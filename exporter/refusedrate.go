package exporter

import (
	"sync"
	"time"
)

const (
	// allowanceBytes is what one source may have in the refused files at once: some four
	// thousand short lines, and an eighth of a file.
	allowanceBytes = 1 << 20
	// allowancePerSecond is what it may add: 64 MiB take it eighteen hours.
	allowancePerSecond = 1 << 10
)

// refusedRate chooses which refused lines are kept, so that the flood of one source does not push
// out the lines of another. The zero value is ready to use; its owner guards it.
type refusedRate struct {
	allowances map[string]*allowance // by source

	// Apart from the owner's lock, which a disk that hangs may hold.
	counting sync.Mutex
	leftOut  map[string]uint64 // lines, by source; guarded by counting
}

// allowance is what a source may add now.
type allowance struct {
	bytes  float64
	at     time.Time
	isOver bool // lines are left out, until half of it is there again
}

// admit takes size from the allowance of source, or reports that there is not as much. begins says
// that lines are left out from now on.
func (r *refusedRate) admit(source string, size int, now time.Time) (admitted, begins bool) {
	if r.allowances == nil {
		r.allowances = map[string]*allowance{}
	}
	a := r.allowances[source]
	if a == nil {
		a = &allowance{bytes: allowanceBytes, at: now}
		r.allowances[source] = a
	}
	a.bytes = min(allowanceBytes, a.bytes+allowancePerSecond*max(0, now.Sub(a.at).Seconds()))
	a.at = now
	a.isOver = a.isOver && a.bytes < allowanceBytes/2
	if a.bytes >= float64(size) {
		a.bytes -= float64(size)
		return true, false
	}
	begins = !a.isOver
	a.isOver = true
	return false, begins
}

// leaveOut counts lines that are not kept.
func (r *refusedRate) leaveOut(source string, lines uint64) {
	r.counting.Lock()
	defer r.counting.Unlock()
	if r.leftOut == nil {
		r.leftOut = make(map[string]uint64)
	}
	r.leftOut[source] += lines
}

// linesLeftOut is how many refused lines of a source were counted and not kept since
// the start. Safe at any time.
func (r *refusedRate) linesLeftOut(source string) uint64 {
	r.counting.Lock()
	defer r.counting.Unlock()
	return r.leftOut[source]
}
