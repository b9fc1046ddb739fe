package client

import (
	"net"
	"time"
)

const (
	// writeBytes bounds one write: a line that is being written keeps its memory,
	// handled or not.
	writeBytes = 256 << 10
	// maxWriteLines is how many buffers the kernel takes in one call (IOV_MAX).
	maxWriteLines = 1024
)

// batch is what one write sends. Owned by the goroutine that writes.
type batch struct {
	next  uint64 // number of the line after the batch
	lines []*line
	texts net.Buffers
	flat  []byte // for a connection that takes one buffer only
}

// writeLines writes the lines from number next on, and what comes, until the
// connection breaks.
func (k *link) writeLines(nc net.Conn, next uint64, broken <-chan struct{}) error {
	b := batch{next: next}
	retry := time.NewTimer(0)
	defer retry.Stop()
	for {
		wait := k.fill(&b)
		if len(b.lines) > 0 {
			err := b.writeTo(nc)
			k.written(&b)
			if err != nil {
				return err
			}
			continue
		}
		var again <-chan time.Time
		if wait > 0 {
			retry.Reset(wait)
			again = retry.C
		}
		select {
		case <-k.wake:
		case <-again:
		case <-broken:
			return nil
		}
	}
}

// fill collects the lines of the next write. When there are none it returns how
// long to wait unless the writer is woken; 0 is for ever.
func (k *link) fill(b *batch) (wait time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.idle = false
	select {
	case <-k.wake: // of the time before
	default:
	}
	b.next = max(b.next, k.box.first)
	due, wait := k.losses.due()
	if due {
		k.tellLosses()
	}
	bytes := 0
	for bytes < writeBytes && len(b.lines) < maxWriteLines {
		l := k.box.inFlight(b.next)
		if l == nil {
			l = k.box.number()
		}
		if l == nil {
			break
		}
		b.next++
		l.writing = true
		b.lines = append(b.lines, l)
		b.texts = append(b.texts, l.text)
		bytes += len(l.text)
	}
	k.idle = len(b.lines) == 0
	return wait
}

// writeTo writes the batch with one system call where the connection can.
func (b *batch) writeTo(nc net.Conn) error {
	switch nc.(type) {
	case *net.UnixConn, *net.TCPConn:
		texts := b.texts // WriteTo consumes it
		_, err := texts.WriteTo(nc)
		return err
	}
	// Elsewhere each buffer would be a write, and on TLS a record, of its own.
	b.flat = b.flat[:0]
	for _, text := range b.texts {
		b.flat = append(b.flat, text...)
	}
	_, err := nc.Write(b.flat)
	if cap(b.flat) > 2*writeBytes { // of one very long line
		b.flat = nil
	}
	return err
}

// written empties the batch.
func (k *link) written(b *batch) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, l := range b.lines {
		l.writing = false
		if l.finished {
			l.recycle()
		}
	}
	clear(b.lines)
	clear(b.texts)
	b.lines, b.texts = b.lines[:0], b.texts[:0]
}
