package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docket-export/docket/client/clienttest"
	"github.com/docket-export/docket/client/internal/testleak"
	"github.com/docket-export/docket/decision/stream"
)

func TestMain(m *testing.M) { testleak.Main(m) }

// exporter is an exporter in memory behind a Unix socket.
type exporter struct {
	*clienttest.Exporter
	t    *testing.T
	path string
}

func newExporter(t *testing.T) *exporter {
	t.Helper()
	e := &exporter{Exporter: clienttest.New(), t: t, path: filepath.Join(t.TempDir(), "s")}
	ln := listenOn(t, "unix", e.path)
	ended := make(chan error, 1)
	go func() { ended <- e.Serve(ln) }()
	t.Cleanup(func() {
		e.Close()
		if err := <-ended; err != nil {
			t.Errorf("Serve: %v", err)
		}
		for _, err := range e.Violations() {
			t.Errorf("violation of the protocol: %v", err)
		}
	})
	return e
}

// bad is a line that refuseBad refuses.
const bad = `{"bad":true}`

func refuseBad(l clienttest.Line) (reason, detail string) {
	if l.Text == bad {
		return "InvalidJSON", "refused by the test"
	}
	return "", ""
}

// restart loses what is held and what is owed.
func (e *exporter) restart() {
	e.Down()
	e.Up()
}

func (e *exporter) await(what string, done func() bool) {
	e.t.Helper()
	if err := e.WaitUntil(within(e.t), done); err != nil {
		e.t.Fatalf("never came: %s; lines %d, held %d", what, len(e.Lines()), e.Held())
	}
}

// within is until the end of t, also in a bubble of synctest.
func within(t *testing.T) context.Context { return t.Context() }

func (e *exporter) sender(config SenderConfig) *Sender {
	e.t.Helper()
	config.Address = "unix://" + e.path
	s, err := NewSender(config)
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_, _ = s.Close(ctx)
	})
	return s
}

func text(n int) []byte { return fmt.Appendf(nil, `{"n":%d}`, n) }

func send(t *testing.T, s *Sender, from, to int) {
	t.Helper()
	for n := from; n <= to; n++ {
		if err := s.Send(within(t), text(n)); err != nil {
			t.Fatalf("Send %d: %v", n, err)
		}
	}
}

func closeAll(t *testing.T, s *Sender) {
	t.Helper()
	if left, err := s.Close(within(t)); left != 0 || err != nil {
		t.Fatalf("Close: got %d left, %v, want 0, nil", left, err)
	}
}

// checkOnce checks that lines are 1 to last, each once and in order.
func checkOnce(t *testing.T, lines []clienttest.Line, last int) {
	t.Helper()
	for i, l := range lines {
		if l.Text != string(text(i+1)) || l.Number != uint64(i+1) {
			t.Fatalf("settled line %d: got number %d, %s", i+1, l.Number, l.Text)
		}
	}
	if len(lines) != last {
		t.Fatalf("settled lines: got %d, want %d", len(lines), last)
	}
}

func TestSendAndClose(t *testing.T) {
	e := newExporter(t)
	var acked uint64
	s := e.sender(SenderConfig{Acked: func(n uint64) { acked = n }})
	reused := make([]byte, 0, 64)
	for n := 1; n <= 10000; n++ {
		reused = append(reused[:0], text(n)...)
		if err := s.Send(within(t), reused); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Flush(within(t)); err != nil {
		t.Fatalf("Flush: %v", err)
	}
	checkOnce(t, e.Lines(), 10000)
	closeAll(t, s)
	if acked != 10000 {
		t.Errorf("Acked: got %d, want 10000", acked)
	}
	if got, want := s.Stats(), (SenderStats{Sent: 10000, Handled: 10000, Connections: 1}); got != want {
		t.Errorf("Stats: got %+v, want %+v", got, want)
	}
	if err := s.Send(within(t), text(1)); !errors.Is(err, ErrClosed) {
		t.Errorf("Send after Close: got %v, want ErrClosed", err)
	}
	closeAll(t, s)
}

func TestFlushWaitsForTheExporter(t *testing.T) {
	e := newExporter(t)
	e.Hold()
	s := e.sender(SenderConfig{})
	send(t, s, 1, 3)
	e.await("3 pending lines", func() bool { return e.Held() == 3 })
	e.Settle(2)
	for s.Stats().InFlightLines > 1 {
		runtime.Gosched()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := s.Flush(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Flush with a line pending: got %v, want deadline exceeded", err)
	}
	ctx, cancel = context.WithCancel(context.Background())
	cancel()
	if left, err := s.Close(ctx); left != 1 || !errors.Is(err, context.Canceled) {
		t.Errorf("Close: got %d left, %v, want 1, canceled", left, err)
	}
}

func TestSendBlocksOnlyWhileTheWindowIsFull(t *testing.T) {
	for name, config := range map[string]SenderConfig{
		"lines": {MaxInFlightLines: 4},
		"bytes": {MaxInFlightBytes: 40_000},
	} {
		t.Run(name, func(t *testing.T) {
			e := newExporter(t)
			e.Hold()
			s := e.sender(config)
			taken := 0
			for err := error(nil); err == nil; {
				ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
				if err = s.Send(ctx, text(taken+1)); err == nil {
					taken++
				} else if !errors.Is(err, context.DeadlineExceeded) {
					t.Fatalf("Send into a full window: got %v, want deadline exceeded", err)
				}
				cancel()
			}
			if st := s.Stats(); st.InFlightLines != taken || taken < 4 || taken > 400 ||
				config.MaxInFlightLines > 0 && taken != config.MaxInFlightLines ||
				config.MaxInFlightBytes > 0 && st.InFlightBytes > config.MaxInFlightBytes {
				t.Fatalf("taken: got %d, %+v, want what fits", taken, st)
			}
			e.await("the taken lines", func() bool { return e.Held() == taken })
			sent := make(chan error, 1)
			go func() { sent <- s.Send(within(t), text(taken+1)) }()
			e.Settle(taken / 2)
			if err := <-sent; err != nil {
				t.Fatalf("Send after an ack: %v", err)
			}
			e.Release()
			closeAll(t, s)
			checkOnce(t, e.Lines(), taken+1)
		})
	}
}

func TestSendRefusesWhatHasNoPlace(t *testing.T) {
	e := newExporter(t)
	s := e.sender(SenderConfig{MaxInFlightBytes: 40_000})
	for text, want := range map[string]string{
		"{\"a\":1}\n":                    "newline",
		"{\n}":                           "newline",
		"":                               "blank",
		" \t\r":                          "blank",
		strings.Repeat("x", 40_000):      "does not fit",
		`{"docket":{"version":1,"x":2}}`: "hello",
	} {
		if err := s.Send(within(t), []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Send %.40q: got %v, want %q", text, err, want)
		}
	}
	send(t, s, 1, 1)
	closeAll(t, s)
	checkOnce(t, e.Lines(), 1)
}

func TestRefusedLinesAreHandled(t *testing.T) {
	e := newExporter(t)
	e.Refuse(refuseBad)
	var refused []string
	s := e.sender(SenderConfig{Refused: func(r stream.Refused) {
		refused = append(refused, fmt.Sprint(r.Seq, " ", r.Reason))
	}})
	for _, text := range []string{"{}", bad, "{}", bad} {
		if err := s.Send(within(t), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	closeAll(t, s)
	if got := strings.Join(refused, ", "); got != "2 InvalidJSON, 4 InvalidJSON" {
		t.Errorf("refused: got %s, want 2 and 4", got)
	}
	if st := s.Stats(); st.Refused != 2 || st.Handled != 4 {
		t.Errorf("Stats: got %+v, want 2 refused, 4 handled", st)
	}
}

// A second process of a named producer goes on where the first has ended.
func TestNameThatIsKnown(t *testing.T) {
	e := newExporter(t)
	first := e.sender(SenderConfig{Producer: "p"})
	send(t, first, 1, 5)
	closeAll(t, first)
	var acked uint64
	second := e.sender(SenderConfig{Producer: "p", Acked: func(n uint64) { acked = n }})
	send(t, second, 6, 8)
	closeAll(t, second)
	checkOnce(t, e.Lines(), 8)
	if acked != 3 {
		t.Errorf("Acked: got %d, want 3: it counts calls of Send", acked)
	}
}

func TestNameThatIsTaken(t *testing.T) {
	e := newExporter(t)
	first := e.sender(SenderConfig{Producer: "p"})
	send(t, first, 1, 5)
	if err := first.Flush(within(t)); err != nil {
		t.Fatal(err)
	}
	second := e.sender(SenderConfig{Producer: "p"})
	send(t, second, 6, 8)
	if err := second.Flush(within(t)); err != nil {
		t.Fatal(err)
	}
	// The first finds that its next numbers are somebody else's.
	err := first.Send(within(t), text(9))
	if err == nil {
		err = first.Flush(within(t))
	}
	if err == nil || !strings.Contains(err.Error(), "another producer uses this name") {
		t.Fatalf("got %v, want that the name is taken", err)
	}
	if left, err := first.Close(within(t)); left > 1 || left == 1 && err == nil {
		t.Errorf("Close: got %d left, %v", left, err)
	}
	closeAll(t, second)
}

func TestNewSenderChecksItsConfig(t *testing.T) {
	for want, config := range map[string]SenderConfig{
		"address: must be unix://":            {Address: "/run/docket.sock"},
		"address: must be a loopback address": {Address: "tcp://h:1"},
		"producer must consist of":            {Address: "unix:///s", Producer: "a b"},
		"must not be negative":                {Address: "unix:///s", MaxInFlightLines: -1},
	} {
		if s, err := NewSender(config); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("NewSender(%+v): got %v, %v, want %q", config, s, err, want)
		}
	}
	if a, b := randomID(), randomID(); a == b || len(a) != 36 || stream.CheckProducer(a) != nil {
		t.Errorf("random names: got %q and %q", a, b)
	}
}

// An exporter that never comes is asked again and again, ever more slowly.
func TestPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := errors.New("nobody there")
		var waits []time.Duration
		s, err := NewSender(SenderConfig{
			Dial: func(context.Context) (net.Conn, error) { return nil, refused },
			Disconnected: func(err error, wait time.Duration) {
				if !errors.Is(err, refused) {
					t.Errorf("Disconnected: got %v, want %v", err, refused)
				}
				waits = append(waits, wait)
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Send(context.Background(), text(1)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if left, err := s.Close(ctx); left != 1 || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Close: got %d left, %v, want 1, deadline exceeded", left, err)
		}
		if n := len(waits); n < 3660/5 || n > 3700/2 {
			t.Errorf("attempts in 61 minutes: got %d, want one every 2.5 to 5 seconds", n)
		}
		want := firstPause
		for i, wait := range waits {
			if wait < want/2 || wait > want {
				t.Fatalf("pause %d: got %v, want %v to %v", i+1, wait, want/2, want)
			}
			want = min(2*want, lastPause)
		}
	})
}
