package client

import (
	"sync"
	"unsafe"
)

// line is one line on its way to the exporter.
type line struct {
	text  []byte // with its newline
	kind  kind   // how it is counted when it is lost
	rank  int    // 0 matters most; see outbox
	keep  bool   // not to be dropped for another
	order uint64 // lines are numbered in this order; set by outbox

	// result takes what became of the line, for the caller who waits for it; nil
	// when nobody does. It has room for one.
	result chan error
	// report is what this line tells of losses; nil for the line of a caller.
	report *tally
	cohort *cohort // set when the line is taken

	// refused is why the line in flight was not stored. It is handled as soon as
	// every line before it is.
	refused *RefusedError
	// A line is used again when it is finished and no write reads it any more.
	writing  bool
	finished bool
}

// lineOverhead is what a line takes beside its text: itself, and its place in a
// deque that has just doubled.
const lineOverhead = int(unsafe.Sizeof(line{})) + 2*int(unsafe.Sizeof(&line{}))

// size is the memory of the line.
func (l *line) size() int { return cap(l.text) + lineOverhead }

const (
	// usualText holds most decisions.
	usualText = 1 << 10
	// keepText is the largest buffer that is used again: buffers grow to the
	// largest record they ever held, and the memory of all of it counts.
	keepText = 2 << 10
)

// lines are those that wait to be used again.
var lines sync.Pool

// newLine returns an empty line with room for a text of so many bytes.
func newLine(room int) *line {
	l, ok := lines.Get().(*line)
	if !ok {
		l = new(line)
	}
	if cap(l.text) < room {
		l.text = make([]byte, 0, room) // no more: all of it counts as memory
	}
	return l
}

// newTextLine returns a line of text, which is copied.
func newTextLine(text []byte) *line {
	l := newLine(len(text) + 1)
	l.text = append(append(l.text, text...), '\n')
	return l
}

// recycle returns a line that is read no more to the pool.
func (l *line) recycle() {
	if cap(l.text) <= keepText {
		*l = line{text: l.text[:0]}
		lines.Put(l)
	}
}
