package streamsource

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/docket-export/docket/decision/stream"
	"github.com/docket-export/docket/sources"
)

const (
	// maxConnections bounds the producers of one source.
	maxConnections = 1024
	// stopWait is how long a stop waits until what was read is settled. Only a
	// queue that is full or a disk that hangs takes that long.
	stopWait = 3 * time.Second
	// severWait is how long the last answers may take after that.
	severWait = time.Second
	// acceptRetry is the pause after an accept that failed for want of
	// something, such as file descriptors.
	acceptRetry = 100 * time.Millisecond
)

// listener is where the connections of a server come from.
type listener interface {
	// Accept waits for the next connection.
	Accept() (net.Conn, error)
	// Retire lets no more producers in. Accept goes on to return those that
	// connected before, and then os.ErrDeadlineExceeded.
	Retire()
	Close() error
}

// server serves the producers that a listener lets in.
type server struct {
	source string
	limit  int // of one line
	intake sources.Intake
	log    *slog.Logger

	wg    sync.WaitGroup
	mu    sync.Mutex
	conns map[net.Conn]struct{}
	said  map[string]time.Time // when a fault was last logged, by its text
}

func newServer(env sources.Env, in sources.Intake) *server {
	return &server{
		source: env.Name,
		limit:  env.MaxRecordBytes,
		intake: in,
		log:    env.Log,
		conns:  make(map[net.Conn]struct{}),
		said:   make(map[string]time.Time),
	}
}

// connections is the number of producers connected now.
func (s *server) connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// serve lets producers in until ctx is done, or accepting fails for good, which
// is the error. It then stops in the order of the flow: nobody new, no more
// lines, what was read is settled, the answers are written. It returns when all
// of that has ended; stopWait and severWait bound it.
func (s *server) serve(ctx context.Context, ln listener) error {
	stop, stopReading := context.WithCancel(ctx)
	defer stopReading()
	hard, cutOff := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cutOff(nil)

	retired := make(chan struct{})
	retire := func() { ln.Retire(); close(retired) }
	accepting := context.AfterFunc(ctx, retire)
	err := s.accept(ctx, ln, func(nc net.Conn) { s.admit(stop, hard, nc) })
	if accepting() { // it failed: ctx is not done
		retire()
	}
	<-retired
	_ = ln.Close() // nobody is in it any more who could be lost
	stopReading()

	settle := time.AfterFunc(stopWait, func() { cutOff(errStopping) })
	defer settle.Stop()
	sever := time.AfterFunc(stopWait+severWait, s.sever)
	defer sever.Stop()
	s.wg.Wait()
	return err
}

// accept passes connections to admit until the listener has retired.
func (s *server) accept(ctx context.Context, ln listener, admit func(net.Conn)) error {
	short := false // of resources; logged once
	for {
		nc, err := ln.Accept()
		switch {
		case err == nil:
			short = false
			admit(nc)
		case ctx.Err() != nil && errors.Is(err, os.ErrDeadlineExceeded):
			return nil
		case !shortage(err):
			return fmt.Errorf("accept: %w", err)
		default:
			if !short {
				short = true
				s.log.Error("cannot accept producers, will try again", "error", err)
			}
			select {
			case <-time.After(acceptRetry):
			case <-ctx.Done():
				return nil
			}
		}
	}
}

// shortage reports whether an accept may succeed later.
func shortage(err error) bool {
	for _, e := range []syscall.Errno{
		syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// admit serves nc in a goroutine of its own, or turns it away.
func (s *server) admit(stop, hard context.Context, nc net.Conn) {
	if !s.add(nc) {
		full := fault(fmt.Sprintf("too many connections: at most %d at a time", maxConnections))
		tell(nc, stream.Closing{Reason: string(full)}.Append(nil))
		nc.Close()
		s.report(full)
		return
	}
	c := &conn{
		nc:     nc,
		source: s.source,
		intake: s.intake,
		lines:  newLineReader(nc, s.limit),
		stop:   stop,
	}
	c.ctx, c.cancel = context.WithCancelCause(hard)
	s.wg.Go(func() {
		defer s.remove(nc)
		s.report(c.serve())
	})
}

func (s *server) add(nc net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.conns) >= maxConnections {
		return false
	}
	s.conns[nc] = struct{}{}
	return true
}

func (s *server) remove(nc net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, nc)
}

// sever closes every connection, whatever it is doing.
func (s *server) sever() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for nc := range s.conns {
		nc.Close()
	}
}

// report logs why a connection ended. A producer that does not know better comes
// back at once and for ever, so a fault is a warning once a minute.
func (s *server) report(end error) {
	level := slog.LevelDebug
	if f, ok := errors.AsType[fault](end); ok && s.news(string(f)) {
		level = slog.LevelWarn
	}
	if !errors.Is(end, io.EOF) {
		s.log.Log(context.Background(), level, "closed a connection", "reason", end)
	}
}

// news reports whether text has not been logged within the last minute.
func (s *server) news(text string) bool {
	const pause, enough = time.Minute, 64
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if at, ok := s.said[text]; ok && now.Sub(at) < pause {
		return false
	}
	if len(s.said) >= enough { // texts quote the producer: keep them bounded
		clear(s.said)
	}
	s.said[text] = now
	return true
}
