package streamsource

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/docket-export/docket/internal/budget"
	"github.com/docket-export/docket/internal/outage"
	"github.com/docket-export/docket/sources"
)

const (
	// stopWait is how long a stop waits until what was read is settled. Only a
	// queue that is full or a disk that hangs takes that long.
	stopWait = 3 * time.Second
	// severWait is how long the last answers may take after that.
	severWait = time.Second
	// acceptRetry is the pause after an accept that failed for want of
	// something, such as file descriptors.
	acceptRetry = 100 * time.Millisecond
	// acceptMost is how long a stop lets in those who wait, where more and more
	// of them come.
	acceptMost = time.Second
)

// listener is where the connections of a server come from.
type listener interface {
	// Accept waits for the next connection.
	Accept() (net.Conn, error)
	// Retire lets no more producers in. For a moment Accept goes on to return
	// those that connected before, and then os.ErrDeadlineExceeded. A second call
	// gives it another moment.
	Retire()
	// Waiting reports whether somebody has connected whom Accept would return.
	Waiting() bool
	// handOver returns another listener on the socket, for a source after this one.
	handOver() (listener, error)
	// Addr is where producers connect; nil while they cannot. Safe at any time.
	Addr() net.Addr
	// Stand makes the socket again when its name does not lead to it any more, and
	// reports whether it has. See sources.Standing.
	Stand(ctx context.Context) (again bool, err error)
	Close() error
}

// server serves the producers that a listener lets in.
type server struct {
	source  string
	ln      listener
	limit   int // of one line
	intake  sources.Intake
	gate    gate
	buffers buffers
	memory  *budget.Budget
	seats   *seats
	shaking *seats // of peers that are at their TLS handshake, by address
	faultLog

	stopWait, farewellWait time.Duration // as the constants, but in tests

	wg sync.WaitGroup
}

func newServer(env sources.Env, in sources.Intake, g gate) *server {
	if env.Memory == nil {
		env.Memory = budget.New(budget.Bytes(env.MaxRecordBytes))
	}
	if env.MaxConnections > 0 {
		g.maxConnections = min(g.maxConnections, env.MaxConnections)
	}
	return &server{
		source:   env.Name,
		limit:    env.MaxRecordBytes,
		intake:   in,
		gate:     g,
		faultLog: faultLog{log: env.Log},
		memory:   env.Memory,
		seats:    newSeats(g.maxConnections, false),
		shaking:  newSeats(maxHandshakes, true),

		stopWait: stopWait, farewellWait: farewellWait,
	}
}

// connections is the number of producers connected now.
func (s *server) connections() int { return s.seats.len() + s.shaking.len() }

// serve lets producers in until ctx is done, or accepting fails for good, which
// is the error. It then stops in the order of the flow: nobody new, no more
// lines, what was read is settled, the answers are written. It returns when all
// of that has ended; acceptMost, stopWait and severWait bound it.
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

	settle := time.AfterFunc(s.stopWait, func() { cutOff(errStopping) })
	defer settle.Stop()
	sever := time.AfterFunc(s.stopWait+severWait, s.sever)
	defer sever.Stop()
	s.wg.Wait()
	return err
}

// accept passes connections to admit until the listener has retired.
func (s *server) accept(ctx context.Context, ln listener, admit func(net.Conn)) error {
	var said outage.Log // of resources that are short
	var over time.Time  // when nobody more is let in; zero: the listener has not retired
	for {
		nc, err := ln.Accept()
		switch {
		case err == nil:
			said.Works()
			admit(nc)
		case ctx.Err() != nil && errors.Is(err, os.ErrDeadlineExceeded):
			if over.IsZero() {
				over = time.Now().Add(acceptMost)
			}
			if !ln.Waiting() || time.Now().After(over) {
				return nil
			}
			ln.Retire() // a busy machine has let the moment pass
		case !shortage(err):
			return fmt.Errorf("accept: %w", err)
		default:
			if errors.Is(err, syscall.EMFILE) {
				s.seats.shed() // so that it hurts who has most of them
			}
			if said.Fails(err.Error()) {
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

// sever closes every connection.
func (s *server) sever() {
	s.shaking.closeAll()
	s.seats.closeAll()
}
