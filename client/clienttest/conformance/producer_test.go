package conformance_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/docket-export/docket/decision/stream"
)

// habits are what one producer does differently from another. The first few are
// good ones, the others are defects.
type habits struct {
	oneInFlight bool // waits for the ack of each line
	halfClose   bool // closes its writing side behind the last line
	betterNext  bool // when it is answered that lines are known, begins behind them

	plainMode          bool // says no hello
	noWait             bool // ends with the last write
	noReconnect        bool // ends when a connection breaks
	noRedial           bool // ends when nobody listens
	newName            bool // has another name on each connection
	newNumbers         bool // counts from 1 on each connection
	skipUnacked        bool // takes for stored what was written
	countAcks          bool // takes an ack for that of one line
	impatient          bool // sends lines again, as new ones, when an ack is late
	sameHello          bool // when lines are known, says the same hello again
	resendRefused      bool // sends refused lines again
	skipQueueFull      bool // takes QueueFull for final
	renumberQueueFull  bool // sends what was refused as QueueFull again, as new lines
	renameQueueFull    bool // comes again under another name after a QueueFull
	resendForgotten    bool // sends everything again to an exporter that has forgotten it
	shortWrites        bool // gives up a line that is not taken at once
	endsOnClosing      bool // takes the closing line for the end of everything
	goesOnAfterClosing bool // takes no notice of the closing line
	leavesOut          bool // does not write lines that were acknowledged before it could

	// erred, which those need whose defect has occasions only, is told when they have
	// made a mistake.
	erred *atomic.Bool
}

// sender is a producer with habits.
type sender struct {
	habits
	name   string
	lines  []string          // all; line n has the number n
	acked  int               // this many are handled
	sent   int               // this many were written on this connection
	ever   int               // and on any connection
	reason map[uint64]string // of lines refused and not yet acknowledged
}

func (h habits) produce(ctx context.Context, address string, records int) error {
	s := &sender{habits: h, name: newName(), reason: make(map[uint64]string)}
	for n := range records {
		s.lines = append(s.lines, fmt.Sprintf(`{"n":%d}`, n+1))
	}
	network, addr, _ := strings.Cut(address, "://")
	for connection := 0; ctx.Err() == nil; connection++ {
		nc, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err == nil {
			if h.newName {
				s.name += "x"
			}
			stop := context.AfterFunc(ctx, func() { nc.Close() })
			err = s.serve(nc)
			stop()
			nc.Close()
			if err == nil || h.noReconnect || errors.Is(err, errFinal) {
				return err
			}
		} else if h.noRedial {
			h.erred.Store(true)
			return err
		}
		time.Sleep(5 * time.Millisecond) // the pause of a producer, not of a test
	}
	return ctx.Err()
}

func newName() string { return fmt.Sprintf("test/%d", time.Now().UnixNano()) }

var (
	errFinal   = errors.New("gave up")
	errClosing = errors.New("closing line")
)

// serve is one connection. It is nil when everything is handled.
func (s *sender) serve(nc net.Conn) error {
	in := bufio.NewReader(nc)
	if s.skipUnacked {
		s.acked = max(s.acked, s.ever)
	}
	if s.newNumbers {
		s.lines, s.acked = s.lines[s.acked:], 0
	}
	if !s.plainMode {
		hello := stream.Hello{Producer: s.name, Next: uint64(s.acked) + 1}
		if _, err := nc.Write(hello.Append(nil)); err != nil {
			return err
		}
	}
	if s.sent = s.acked; s.betterNext || s.sameHello {
		acked := s.acked
		if err := s.receive(in); err != nil {
			return err
		}
		if s.acked > acked {
			if s.sameHello {
				s.acked = acked
			}
			return errors.New("other lines are known than those offered")
		}
	}
	for s.acked < len(s.lines) {
		werr := s.write(nc, in)
		if s.noWait && werr == nil {
			s.endNow(nc, in)
		}
		if s.noWait || s.plainMode {
			return werr
		}
		if s.impatient {
			nc.SetReadDeadline(time.Now().Add(5 * time.Millisecond))
		}
		if s.leavesOut { // what it waits for never comes
			nc.SetReadDeadline(time.Now().Add(2 * time.Second))
		}
		err := s.receive(in)
		for werr != nil && err == nil { // what it said before it broke
			err = s.receive(in)
		}
		if s.impatient && errors.Is(err, os.ErrDeadlineExceeded) {
			s.lines = append(s.lines, s.lines[s.acked:min(s.sent, s.acked+1)]...)
			s.erred.Store(s.erred.Load() || s.sent > s.acked)
			err = nil
		}
		if s.leavesOut && errors.Is(err, os.ErrDeadlineExceeded) {
			return errFinal
		}
		if errors.Is(err, errClosing) && s.goesOnAfterClosing {
			return s.goOn(nc)
		}
		if err != nil && s.acked < len(s.lines) {
			return err
		}
	}
	return nil
}

// endNow takes no more acks, and looks whether those that had come were all.
func (s *sender) endNow(nc net.Conn, in *bufio.Reader) {
	if half, ok := nc.(interface{ CloseRead() error }); ok {
		half.CloseRead()
	}
	for err := error(nil); err == nil; {
		err = s.receive(in)
	}
	s.erred.Store(s.acked < len(s.lines))
}

// goOn writes although it was told to stop.
func (s *sender) goOn(nc net.Conn) error {
	for {
		if _, err := io.WriteString(nc, s.lines[s.acked]+"\n"); err != nil {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// write writes what is not written yet.
func (s *sender) write(nc net.Conn, in *bufio.Reader) error {
	for ; s.sent < len(s.lines); s.sent++ {
		if s.leavesOut && s.sent%10000 == 9999 { // more than the buffers hold
			nc.SetReadDeadline(time.Now().Add(time.Millisecond))
			if err := s.receive(in); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
				return err
			}
			nc.SetReadDeadline(time.Time{})
			s.sent = max(s.sent, s.acked)
		}
		if s.oneInFlight && s.sent > s.acked {
			return nil
		}
		s.ever = max(s.ever, s.sent+1)
		write := io.WriteString
		if s.shortWrites {
			write = writeAtOnce
		}
		if _, err := write(nc, s.lines[s.sent]+"\n"); err != nil {
			return err
		}
		if half, ok := nc.(interface{ CloseWrite() error }); ok && s.halfClose && s.sent+1 == len(s.lines) {
			half.CloseWrite()
			s.sent++
			return nil
		}
	}
	return nil
}

// writeAtOnce writes as much of text as there is room for in the socket, and says that it
// was all of it.
func writeAtOnce(nc io.Writer, text string) (n int, err error) {
	raw, err := nc.(syscall.Conn).SyscallConn()
	if err != nil {
		return 0, err
	}
	writeErr := raw.Write(func(fd uintptr) bool {
		if _, err = syscall.Write(int(fd), []byte(text)); errors.Is(err, syscall.EAGAIN) {
			err = nil
		}
		return true
	})
	return len(text), errors.Join(writeErr, err)
}

// receive takes one reply.
func (s *sender) receive(in *bufio.Reader) error {
	line, err := in.ReadBytes('\n')
	if err != nil {
		return err
	}
	reply, err := stream.ParseReply(line[:len(line)-1])
	if err != nil {
		return err
	}
	switch r := reply.(type) {
	case stream.Answer:
		if int(r.Acked) < s.acked && s.resendForgotten {
			s.lines = append(s.lines, s.lines[r.Acked:s.acked]...)
		}
		s.handled(int(r.Acked))
	case stream.Ack:
		if s.countAcks {
			r.Through = uint64(s.acked) + 1
		}
		s.handled(int(r.Through))
	case stream.Refused:
		s.reason[r.Seq] = r.Reason
		if s.skipQueueFull && r.Reason == "QueueFull" {
			s.handled(int(r.Seq))
		}
		if s.renameQueueFull && r.Reason == "QueueFull" {
			s.name = newName()
		}
	case stream.Closing:
		if s.endsOnClosing {
			return fmt.Errorf("%w: %s", errFinal, r.Reason)
		}
		return errClosing
	}
	return nil
}

// handled takes an ack. Lines to be sent again are new ones at the end.
func (s *sender) handled(through int) {
	for s.acked < min(through, len(s.lines)) {
		line := s.lines[s.acked]
		s.acked++
		switch reason := s.reason[uint64(s.acked)]; {
		case reason == "QueueFull" && s.renumberQueueFull:
			s.lines = append(s.lines, line)
		case reason != "" && reason != "QueueFull" && s.resendRefused:
			s.lines = append(s.lines, line)
			s.resendRefused = false // once is enough
		}
		delete(s.reason, uint64(s.acked))
	}
}
