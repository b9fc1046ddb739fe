package stdoutsink

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/sinks"
	"github.com/docket-export/docket/sinks/sinktest"
)

func TestConformance(t *testing.T) {
	sinktest.Run(t, func(*testing.T) sinktest.Subject {
		out := &output{}
		fault := func(err error) func(*testing.T) func() {
			return func(*testing.T) func() {
				out.set(func() { out.err = err })
				return func() { out.set(func() { out.err = nil }) }
			}
		}
		return sinktest.Subject{
			Open:     func(*testing.T) sinks.Sink { return newSink(out) },
			Accepted: func(*testing.T) []string { return out.lines() },
			Faults: []sinktest.Fault{
				{Name: "disk full", Kind: sinks.Transient, Start: fault(unix.ENOSPC)},
				{Name: "reader gone", Kind: sinks.Misconfigured, Start: fault(unix.EPIPE)},
			},
			Hang: func(*testing.T) (<-chan struct{}, func()) {
				reached, hang := make(chan struct{}), make(chan struct{})
				out.set(func() { out.reached, out.hang = reached, hang })
				return reached, func() { close(hang) }
			},
		}
	})
}

// output keeps what is written, unless told to fail, stop half-way, or hang once.
type output struct {
	mu     sync.Mutex
	text   bytes.Buffer
	writes int
	half   bool
	err    error

	reached, hang chan struct{}
}

func (o *output) set(change func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	change()
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	reached, hang := o.reached, o.hang
	o.reached, o.hang = nil, nil
	o.mu.Unlock()
	if hang != nil {
		close(reached)
		<-hang
	}

	o.mu.Lock()
	defer o.mu.Unlock()
	o.writes++
	if o.half {
		o.half = false
		n, _ := o.text.Write(p[:len(p)/2])
		return n, unix.ENOSPC
	}
	if o.err != nil {
		return 0, o.err
	}
	return o.text.Write(p)
}

func (o *output) Close() error { return nil }

func (o *output) lines() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.text.Len() == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(o.text.String(), "\n"), "\n")
}

func batch(list ...string) sinks.Batch {
	b := sinks.Batch{Queue: "11111111-1111-4111-8111-111111111111"}
	for i, text := range list {
		b.Items = append(b.Items, sinks.Item{Seq: uint64(i + 1), Record: []byte(text)})
	}
	return b
}

// TestTornLine wants a record after a write that ended within a line to stand on
// a line of its own.
func TestTornLine(t *testing.T) {
	out := &output{half: true}
	s, b := newSink(out), batch(`{"a":1}`)
	if err := s.Send(context.Background(), b); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("got %v, want %v", err, unix.ENOSPC)
	}
	if err := s.Send(context.Background(), b); err != nil {
		t.Fatal(err)
	}
	if got, want := out.text.String(), "{\"a\"\n{\"a\":1}\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestReaderGone writes to a real pipe without a reader: the process, this test,
// must live on.
func TestReaderGone(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	s := openOn(t, w)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	err = s.Send(context.Background(), batch(`{"a":1}`))
	if f := sinks.FailureOf(err); f.Kind != sinks.Misconfigured || !errors.Is(err, unix.EPIPE) {
		t.Errorf("got %v of kind %v, want %v of kind %v", err, f.Kind, unix.EPIPE, sinks.Misconfigured)
	}
}

// TestOwnDescriptor closes the sink and wants standard output to stay open.
func TestOwnDescriptor(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	s := openOn(t, w)
	if err := s.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if _, err := w.WriteString("x"); err != nil {
		t.Errorf("standard output after Close: %v", err)
	}
}

// openOn opens a sink from its configuration while w is standard output.
func openOn(t *testing.T, w *os.File) sinks.Sink {
	t.Helper()
	before := os.Stdout
	os.Stdout = w
	t.Cleanup(func() {
		os.Stdout = before
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	c := Definition.NewConfig()
	if err := c.Validate().Err(); err != nil {
		t.Fatal(err)
	}
	s, err := c.Open(context.Background(), sinks.Env{Name: "out"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}
