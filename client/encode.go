package client

import (
	"sync"

	"github.com/docket-export/docket/decision"
)

// A record that TryLog takes is copied, which costs its caller a third of what the
// encoding would. Its line has its place among the others at once; its text is made
// by a goroutine of the link. Until then the line is raw, and counts with the most
// memory that it can need. No line is dropped, refused or made to wait because of
// that: when memory is short, the raw lines get their texts first.

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
	l.reserved = max(raw.MaxLine(), cap(l.text))
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
	if k.ended() != nil || k.raws.len() == maxRaw || !k.box.hasRoom(l) || k.yields(l) {
		return false
	}
	k.raws.pushBack(l)
	return k.takeLocked(l)
}

// encodeNow makes the texts of all raw lines, with mu held.
func (k *link) encodeNow() {
	var desk []byte
	for k.raws.len() > 0 {
		l := k.raws.popFront()
		raw := l.raw
		desk = raw.AppendLine(desk[:0])
		k.box.giveText(l, appendText(l.text, desk))
		if k.encoding > 0 { // the encoder has it too, and recycles it
			k.encoding--
		} else {
			recycleCopy(raw)
		}
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
	stopping, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		k.encodeRaws(stopping)
	}()
	return func() {
		close(stopping)
		<-stopped
	}
}

// encodeRaws makes the texts of raw lines until stop is closed and none is left.
func (k *link) encodeRaws(stop <-chan struct{}) {
	var e encoder
	for stopping := false; ; {
		if k.nextRaws(&e); len(e.lines) > 0 {
			e.encode()
			k.encoded(&e)
			continue
		}
		if stopping {
			return
		}
		select {
		case <-k.rawTaken:
		case <-stop:
			stopping = true
		}
	}
}

// encoder has what is encoded at a time. Owned by encodeRaws.
type encoder struct {
	lines []*line
	raws  []*decision.Copy // of lines
	texts [][]byte         // for lines
	desk  []byte           // where a text is made: its size is not known before
}

// nextRaws fills e with the next raw lines, which stay among the raw ones. If there
// are none, the encoder is to be woken.
func (k *link) nextRaws(e *encoder) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.encoding = min(k.raws.len(), encodeLines)
	for i := range k.encoding {
		l := k.raws.at(i)
		e.lines = append(e.lines, l)
		e.raws = append(e.raws, l.raw)
		e.texts = append(e.texts, l.text)
		l.text = nil // the buffer is e's
	}
	k.encoderIdle = k.encoding == 0
}

// encode makes the texts.
func (e *encoder) encode() {
	for i, raw := range e.raws {
		e.desk = raw.AppendLine(e.desk[:0])
		e.texts[i] = appendText(e.texts[i], e.desk)
	}
}

// encoded gives the lines their texts, those excepted that have got them from
// encodeNow, and empties e.
func (k *link) encoded(e *encoder) {
	k.giveTexts(e)
	for _, raw := range e.raws {
		recycleCopy(raw)
	}
	clear(e.lines)
	clear(e.raws)
	clear(e.texts)
	e.lines, e.raws, e.texts = e.lines[:0], e.raws[:0], e.texts[:0]
	if cap(e.desk) > keepDesk {
		e.desk = nil
	}
}

func (k *link) giveTexts(e *encoder) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range k.encoding { // none, when encodeNow was here
		k.raws.popFront()
		k.box.giveText(e.lines[i], e.texts[i])
	}
	k.encoding = 0
	k.letIn() // a text takes less than was reserved for it
	k.wakeWriter()
}

// wakeEncoder wakes the encoder if it waits, with mu held.
func (k *link) wakeEncoder() {
	if k.encoderIdle {
		k.encoderIdle = false
		k.rawTaken <- struct{}{} // has room: encoderIdle is set by the one who empties it
	}
}
