package proc

import (
	"bytes"
	"strings"
	"sync"
)

// Log collects the output of a process. It is safe for concurrent use.
type Log struct {
	mu    sync.Mutex
	text  []byte                   // guarded by mu
	marks map[string]chan struct{} // guarded by mu; those not seen yet
}

func newLog() *Log { return &Log{marks: make(map[string]chan struct{})} }

// Write adds output of the process.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	from := len(l.text)
	l.text = append(l.text, p...)
	for mark, seen := range l.marks {
		// A mark may have begun in the output before this one.
		if bytes.Contains(l.text[max(0, from-len(mark)):], []byte(mark)) {
			close(seen)
			delete(l.marks, mark)
		}
	}
	return len(p), nil
}

// Seen returns a channel that is closed once the output contains mark.
func (l *Log) Seen(mark string) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if seen, ok := l.marks[mark]; ok {
		return seen
	}
	seen := make(chan struct{})
	if bytes.Contains(l.text, []byte(mark)) {
		close(seen)
	} else {
		l.marks[mark] = seen
	}
	return seen
}

// Tail returns the last n lines of the output.
func (l *Log) Tail(n int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := strings.Split(strings.TrimRight(string(l.text), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
