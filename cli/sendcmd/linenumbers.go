package sendcmd

import (
	"sort"
	"sync"
)

// lineNumbers knows which line of the input the n-th one sent was: blank lines
// and those that cannot be sent have a number in the input only.
type lineNumbers struct {
	mu   sync.Mutex
	sent uint64
	runs []lineRun // ascending; from the oldest line in flight on
}

// lineRun is a number of lines that follow each other in the input and were all
// sent. It ends where the next one begins.
type lineRun struct{ sent, line uint64 }

// add notes that line is sent next.
func (l *lineNumbers) add(line uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent++
	if n := len(l.runs); n == 0 || line-l.runs[n-1].line != l.sent-l.runs[n-1].sent {
		l.runs = append(l.runs, lineRun{sent: l.sent, line: line})
	}
}

// line is the number in the input of the line that was sent as number sent.
func (l *lineNumbers) line(sent uint64) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	next := sort.Search(len(l.runs), func(i int) bool { return l.runs[i].sent > sent })
	run := l.runs[next-1]
	return run.line + sent - run.sent
}

// forget drops the first sent lines, which are acknowledged.
func (l *lineNumbers) forget(sent uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.runs) > 1 && l.runs[1].sent <= sent+1 {
		l.runs = l.runs[1:]
	}
}
