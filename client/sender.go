// Package client is what producers import to send records to the exporter.
//
//	sender.go   Sender: lines in, acknowledgements out
//	link.go     one connection of a Sender, and how the next one goes on
//	window.go   the lines that are under way
package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/docket-export/docket/decision/stream"
)

// Defaults of SenderConfig.
const (
	DefaultInFlightBytes = 8 << 20
	DefaultInFlightLines = 64 << 10
)

// ErrClosed is returned by Send after Close.
var ErrClosed = errors.New("sender is closed")

// SenderConfig configures a Sender. The callbacks are called one at a time, must
// not block and must not call the Sender, Stats excepted.
type SenderConfig struct {
	// Address of the exporter: unix:///run/docket/docket.sock
	Address string
	// Producer names the stream of lines; see stream.CheckProducer. Empty: a
	// random name, which suits a producer that does not outlive its process. Of
	// a name that the exporter knows already, the stream is continued.
	Producer string
	// MaxInFlightBytes bounds the lines not yet handled, newlines included, and
	// so the memory. 0: DefaultInFlightBytes.
	MaxInFlightBytes int
	// MaxInFlightLines bounds how many they are. 0: DefaultInFlightLines.
	MaxInFlightLines int

	// Refused is told of a line that the exporter has not stored, and will not
	// be sent again. Seq counts the calls of Send from 1.
	Refused func(stream.Refused)
	// Acked is told that the exporter has handled the first n lines: each is on
	// its disk or has been refused. Flush returns only after that.
	Acked func(n uint64)
	// Connected is told of each connection. forgotten is how many lines the
	// exporter has acknowledged and does not know any more; they were on its
	// disk, and are not sent again. It is 0 unless the exporter has a new queue
	// or has not heard of the producer for a day.
	Connected func(forgotten uint64)
	// Disconnected is told why a connection ended or could not be made, and how
	// long the sender waits before it tries again.
	Disconnected func(err error, wait time.Duration)

	// Dial connects to the exporter. nil: as Address says.
	Dial func(ctx context.Context) (net.Conn, error)
}

// Sender sends lines to the exporter in acknowledged mode and keeps each until
// it is handled. Connections that break are replaced for as long as the Sender
// lives; lines not acknowledged are sent again under the same numbers, so that
// the exporter stores each of them once. Safe for concurrent use.
type Sender struct {
	config SenderConfig
	cancel context.CancelFunc
	done   chan struct{} // closed when run has ended

	mu      sync.Mutex
	space   sync.Cond // there may be room in the window
	data    sync.Cond // there may be something to write, or the link is broken
	handled sync.Cond // lines were handled
	closed  bool      // no more lines are taken
	err     error     // why the sender has ended, for ever
	win     window    // numbers count the calls of Send from 1

	met     bool     // the exporter has answered once
	base    uint64   // number on the wire less number in the window
	handed  uint64   // offset up to which lines were ever given to a connection
	broken  bool     // the present connection
	skipped []uint64 // lines refused before an earlier one was handled; ascending
	stats   Stats
}

// Stats counts what a Sender has done.
type Stats struct {
	Sent          uint64 // lines taken by Send
	Handled       uint64 // lines acknowledged or refused
	Refused       uint64 // lines refused
	InFlightLines int    // Sent less Handled
	InFlightBytes int
	Connections   uint64 // connections on which the exporter has answered
	Forgotten     uint64 // the most that SenderConfig.Connected was told
	Connected     bool   // at this moment
}

// NewSender starts a sender. It does not wait for the exporter. An error is a
// mistake in config.
func NewSender(config SenderConfig) (*Sender, error) {
	if config.Dial == nil {
		dial, err := dialer(config.Address)
		if err != nil {
			return nil, err
		}
		config.Dial = dial
	}
	if config.Producer == "" {
		config.Producer = randomID()
	}
	if err := stream.CheckProducer(config.Producer); err != nil {
		return nil, err
	}
	if config.MaxInFlightBytes < 0 || config.MaxInFlightLines < 0 {
		return nil, errors.New("limits of what is in flight must not be negative")
	}
	if config.MaxInFlightBytes == 0 {
		config.MaxInFlightBytes = DefaultInFlightBytes
	}
	if config.MaxInFlightLines == 0 {
		config.MaxInFlightLines = DefaultInFlightLines
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &Sender{
		config: config,
		cancel: cancel,
		done:   make(chan struct{}),
		win:    newWindow(config.MaxInFlightBytes, config.MaxInFlightLines),
	}
	s.space.L, s.data.L, s.handled.L = &s.mu, &s.mu, &s.mu
	go s.run(ctx)
	return s, nil
}

// dialer returns the way to the exporter at address.
func dialer(address string) (func(context.Context) (net.Conn, error), error) {
	path, ok := strings.CutPrefix(address, "unix://")
	if !ok || !filepath.IsAbs(path) {
		return nil, fmt.Errorf("address %q: must be unix:// and an absolute path, such as unix:///run/docket/docket.sock", address)
	}
	return func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}, nil
}

// randomID returns a name that nobody else has: a version 4 UUID.
func randomID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// Send takes one line, without its newline, to be sent. It copies the line and
// blocks only while the window is full, until ctx is done. nil does not mean
// that the exporter has the line; see Flush and SenderConfig.Acked. A line that
// has no place in the protocol is an error and not sent: one with a newline in
// it, a blank one, a hello, and one that is larger than the window.
func (s *Sender) Send(ctx context.Context, line []byte) error {
	if err := s.check(line); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	pushed := false
	err := s.wait(ctx, &s.space, func() bool {
		pushed = !s.closed && s.err == nil && s.win.push(line)
		return pushed || s.closed
	})
	if err != nil {
		return err
	}
	if !pushed {
		return ErrClosed
	}
	s.stats.Sent++
	s.data.Signal()
	return nil
}

func (s *Sender) check(line []byte) error {
	switch {
	case bytes.IndexByte(line, '\n') >= 0:
		return errors.New("line has a newline in it")
	case len(bytes.TrimSpace(line)) == 0:
		return errors.New("line is blank")
	case len(line) >= s.config.MaxInFlightBytes:
		return fmt.Errorf("line of %d bytes does not fit into a window of %d", len(line), s.config.MaxInFlightBytes)
	case stream.IsHello(line):
		return errors.New("line is a hello of the stream protocol, not a record")
	}
	return nil
}

// Flush waits until every line that was sent before is handled: on the
// exporter's disk, or refused.
func (s *Sender) Flush(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.win.last()
	return s.wait(ctx, &s.handled, func() bool { return s.win.first > last })
}

// Close takes no more lines, waits like Flush, and ends the sender, whether or
// not ctx left it the time. left is how many lines are not handled; the exporter
// may have some of them all the same. The error is nil if there are none.
func (s *Sender) Close(ctx context.Context) (left int, err error) {
	s.mu.Lock()
	s.closed = true
	s.space.Broadcast()
	s.mu.Unlock()

	err = s.Flush(ctx)
	s.cancel()
	<-s.done
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = ErrClosed
		s.handled.Broadcast()
	}
	if s.win.count == 0 {
		return 0, nil
	}
	return s.win.count, err
}

// Stats returns the counts of this moment.
func (s *Sender) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.stats
	st.Handled = s.win.first - 1
	st.InFlightLines = s.win.count
	st.InFlightBytes = int(s.win.head - s.win.tail)
	return st
}

// wait waits on c, with mu held, until ready, the end of the sender, or ctx is
// done.
func (s *Sender) wait(ctx context.Context, c *sync.Cond, ready func() bool) error {
	if ready() {
		return nil
	}
	wake := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		c.Broadcast()
	}
	defer context.AfterFunc(ctx, wake)()
	for {
		switch {
		case s.err != nil:
			return s.err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
		c.Wait()
		if ready() {
			return nil
		}
	}
}
