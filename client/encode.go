package client

import (
	"sync"

	"github.com/docket-export/docket/decision"
)

// A record that TryLog takes is copied, which costs its caller a third of what the
// encoding would. Its line has its place among the others at once; its text is made
// by a goroutine of the link. Until then the line is raw, and counts with the most
// memory that it can need. No line is dropped, refused or made to wait because of
// that: when memory is short, raw lines get their texts first.

const (
	// maxRaw is how many lines may be raw: a burst of 1,000 is, where all
	// processors are busy, and that many can be encoded in the time of a sync.
	// What comes then is encoded by the one who logs.
	maxRaw = 1024
	// encodeLines is how many texts are made until they are given to their lines,
	// for the writer to send.
	encodeLines = 32
	// keepDesk is the largest desk that is kept.
	keepDesk = 64 << 10
)

// copies are those that wait to be used again.
var copies sync.Pool

func recycleCopy(c *decision.Copy) {
	c.Forget()
	copies.Put(c)
}

// copyRecord makes a raw line of r.
func (c *Client) copyRecord(r *decision.Record) (*line, error) {
	raw, ok := copies.Get().(*decision.Copy)
	if !ok {
		raw = new(decision.Copy)
	}
	if err := raw.Set(r); err != nil {
		recycleCopy(raw)
		return nil, err
	}
	l := newLine(0)
	l.raw = raw
	l.reserved = raw.MaxLine() + cap(l.text)
	c.classify(l, r.Decision)
	return l, nil
}

// encode makes the text of a raw line that was not taken.
func (l *line) encode() {
	if cap(l.text) < usualText {
		l.text = make([]byte, 0, usualText)
	}
	l.text = l.raw.AppendLine(l.text)
	recycleCopy(l.raw)
	l.raw = nil
}

// tryTakeRaw takes a raw line if there is room even for the longest text that it may
// get.
func (k *link) tryTakeRaw(l *line) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.ended() == nil && k.raws.len() < maxRaw && k.box.hasRoom(l) && !k.yields(l) && k.takeLocked(l)
}

// encodeFor makes texts of raw lines, in their order, until there is room for l or
// nothing is raw, with mu held.
func (k *link) encodeFor(l *line) {
	var room [usualText]byte // on the stack
	for desk := room[:0]; k.raws.len() > 0 && !k.box.hasRoom(l); {
		next := k.raws.popFront()
		raw := next.raw
		desk = raw.AppendLine(desk[:0])
		k.box.giveText(next, appendText(next.text, desk))
		if k.encoding > 0 { // the encoder has it too, and recycles it
			k.encoding--
		} else {
			recycleCopy(raw)
		}
		k.wakeWriter() // there may be no room for l until it is sent
	}
}

// appendText appends text to dst, or to what has just the room.
func appendText(dst, text []byte) []byte {
	if cap(dst)-len(dst) < len(text) {
		dst = make([]byte, 0, max(len(text), usualText))
	}
	return append(dst, text...)
}

// startEncoder starts the goroutine that makes the texts of raw lines. stop waits
// until it has made all of them; no more lines must be taken then.
func (k *link) startEncoder() (stop func()) {
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		k.encodeRaws()
	}()
	return func() {
		close(k.rawTaken)
		<-stopped
	}
}

// encodeRaws makes the texts of raw lines whenever there are some, until rawTaken is
// closed.
func (k *link) encodeRaws() {
	var e encoder
	for range k.rawTaken {
		for k.nextRaws(&e) {
			e.encode()
			k.encoded(&e)
		}
	}
}

// encoder has what is encoded at a time. Owned by encodeRaws.
type encoder struct {
	jobs []job
	desk []byte // where a text is made: its size is not known before
}

// job is to make the text of a line, which keeps raw until it gets the text.
type job struct {
	line *line
	raw  *decision.Copy
	text []byte // begins as the line's buffer
}

// nextRaws fills e with the next raw lines, which stay among the raw ones. It is
// false when there are none, and the encoder is to be woken.
func (k *link) nextRaws(e *encoder) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.encoding = min(k.raws.len(), encodeLines)
	for i := range k.encoding {
		l := k.raws.at(i)
		e.jobs = append(e.jobs, job{l, l.raw, l.text})
		l.text = nil // the buffer is e's
	}
	k.encoderIdle = k.encoding == 0
	return k.encoding > 0
}

// encode makes the texts.
func (e *encoder) encode() {
	for i := range e.jobs {
		j := &e.jobs[i]
		e.desk = j.raw.AppendLine(e.desk[:0])
		j.text = appendText(j.text, e.desk)
	}
	if cap(e.desk) > keepDesk {
		e.desk = nil
	}
}

// encoded gives the lines their texts and empties e.
func (k *link) encoded(e *encoder) {
	k.giveTexts(e.jobs)
	for _, j := range e.jobs {
		recycleCopy(j.raw)
	}
	clear(e.jobs)
	e.jobs = e.jobs[:0]
}

// giveTexts gives the lines their texts, the first ones excepted that have got theirs
// from encodeFor: those may be gone. It makes no room for lines that wait for it: they
// wait because there is none even with all texts made.
func (k *link) giveTexts(jobs []job) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, j := range jobs[len(jobs)-k.encoding:] {
		k.raws.popFront()
		k.box.giveText(j.line, j.text)
	}
	k.encoding = 0
	k.wakeWriter()
}

// wakeEncoder wakes the encoder if it waits, with mu held.
func (k *link) wakeEncoder() {
	if k.encoderIdle {
		k.encoderIdle = false
		k.rawTaken <- struct{}{} // has room: encoderIdle is set by the one who empties it
	}
}
