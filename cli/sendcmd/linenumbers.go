package sendcmd

import "sync"

// lineNumbers knows the place in the input of each line that is sent and not handled. Lines are
// sent as numbers 1, 2, 3 ...; blank lines and those that send refuses itself have none.
type lineNumbers struct {
	mu      sync.Mutex
	sent    uint64            // guarded by mu
	handled uint64            // guarded by mu
	lines   map[uint64]uint64 // in the input, by their numbers; guarded by mu
}

// add notes that line is sent next.
func (l *lineNumbers) add(line uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lines == nil {
		l.lines = make(map[uint64]uint64)
	}
	l.sent++
	l.lines[l.sent] = line
}

// line is the number in the input of the line that was sent as number sent.
func (l *lineNumbers) line(sent uint64) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines[sent]
}

// forget drops the first sent lines, which are acknowledged.
func (l *lineNumbers) forget(sent uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for ; l.handled < sent; l.handled++ {
		delete(l.lines, l.handled+1)
	}
}
