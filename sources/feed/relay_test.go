package feed_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docket-export/docket/sources"
	"github.com/docket-export/docket/sources/feed"
	"github.com/docket-export/docket/sources/sourcetest"
)

// relayed sends lines from to to, which it makes in buffer, and returns the next buffer.
func relayed(t *testing.T, r *feed.Relay, buffer []byte, from, to int) []byte {
	t.Helper()
	next, err := r.Send(append(buffer, lines(from, to)...), to-from+1)
	if err != nil {
		t.Fatalf("Send %d to %d: %v", from, to, err)
	}
	if len(next) != 0 {
		t.Fatalf("got a buffer with %q in it, want an empty one", next)
	}
	return next
}

// What is sent piece by piece arrives in order, under its numbers, whatever the pieces,
// and with lines between them that are too long.
func TestRelay(t *testing.T) {
	for size := 1; size <= 40; size += 3 {
		in := sourcetest.New()
		f, _ := open(t, in, 1)
		r := feed.NewRelay(t.Context(), f)
		var buffer []byte
		n := 1
		for ; n <= 300; n += size {
			buffer = relayed(t, r, buffer, n, n+size-1)
			clear(buffer[:cap(buffer)]) // which is the caller's
		}
		if _, err := r.Send(buffer, 0); err != nil {
			t.Fatal(err)
		}
		prefix := []byte("{long")
		if err := r.SendTooLarge(prefix, 1<<30); err != nil {
			t.Fatal(err)
		}
		clear(prefix) // which is the caller's again
		relayed(t, r, nil, n+1, n+1)
		if err := r.Settle(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.Close()
		r.Close()
		in.Close()
		got := in.Lines()
		if len(got) != n+1 {
			t.Fatalf("pieces of %d: got %d lines, want %d", size, len(got), n+1)
		}
		for i, l := range got {
			want := sourcetest.Line{Producer: producer, Number: uint64(i + 1), Text: line(i + 1)}
			if i+1 == n {
				want.Text, want.Refused = "{long", sources.TooLarge
			}
			if l != want {
				t.Fatalf("pieces of %d: settled line %d is %+v, want %+v", size, i+1, l, want)
			}
		}
	}
}

// The caller is ahead by one piece that waits and one that is being sent, and by three
// buffers.
func TestRelayIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := sourcetest.New()
		defer in.Close()
		f, _ := open(t, in, 1)
		in.Fill()
		r := feed.NewRelay(t.Context(), f)
		defer r.Close()
		buffers := map[*byte]bool{}
		handed, done := 0, make(chan struct{})
		go func() {
			defer close(done)
			var buffer []byte
			for n := 1; n <= 50; n++ {
				if cap(buffer) == 0 {
					buffer = make([]byte, 0, 100)
				}
				buffers[&buffer[:1][0]] = true
				buffer = relayed(t, r, buffer, n, n)
				handed++
			}
		}()
		synctest.Wait()
		if handed != 2 {
			t.Errorf("%d pieces were taken while the queue is full, want 2", handed)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if handed != 2 {
			t.Errorf("%d pieces were taken after an hour, want 2", handed)
		}
		in.Drain()
		<-done
		if err := r.Settle(t.Context()); err != nil {
			t.Fatal(err)
		}
		expect(t, in, 50)
		if len(buffers) > 3 {
			t.Errorf("got %d buffers, want 3", len(buffers))
		}
	})
}

// A queue that is full in the middle loses nothing, and gets nothing twice.
func TestRelayAndFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := sourcetest.New()
		defer in.Close()
		f, _ := open(t, in, 1)
		r := feed.NewRelay(t.Context(), f)
		defer r.Close()
		var buffer []byte
		for n := 1; n <= 300; n += 3 {
			if n%50 == 1 {
				in.Fill()
				time.AfterFunc(time.Minute, in.Drain)
			}
			buffer = relayed(t, r, buffer, n, n+2)
		}
		if err := r.Settle(t.Context()); err != nil {
			t.Fatal(err)
		}
		expect(t, in, 300)
		if in.Known() != 0 {
			t.Errorf("%d lines were sent again that the queue had taken", in.Known())
		}
	})
}

// What was sent before Close is settled although nobody waits for it.
func TestRelayClose(t *testing.T) {
	in := sourcetest.New()
	defer in.Close()
	f, _ := open(t, in, 1)
	r := feed.NewRelay(t.Context(), f)
	relayed(t, r, nil, 1, 2)
	relayed(t, r, nil, 3, 4)
	r.Close()
	if _, err := r.Send(lines(5, 5), 1); err == nil {
		t.Error("Send after Close: got nil")
	}
	if err := r.SendTooLarge([]byte("{"), 10); err == nil {
		t.Error("SendTooLarge after Close: got nil")
	}
	if err := r.Settle(t.Context()); err == nil {
		t.Error("Settle after Close: got nil")
	}
	f, acked := open(t, in, 1) // once everything is settled
	defer f.Close()
	if acked != 4 {
		t.Errorf("acked %d, want 4", acked)
	}
	expect(t, in, 4)
}

// A relay that is stopped, or whose intake fails, says so to whoever sends more and to
// whoever waits, and its goroutine ends: the bubble would wait for it.
func TestRelayEnds(t *testing.T) {
	stopped := errors.New("stopped")
	tests := map[string]struct {
		end  func(in *sourcetest.Intake, stop context.CancelCauseFunc)
		want error // nil: any
	}{
		"stopped while the queue is full": {func(in *sourcetest.Intake, stop context.CancelCauseFunc) {
			in.Fill()
			time.AfterFunc(time.Second, func() { stop(stopped) })
		}, stopped},
		"stopped while the queue takes what comes": {func(_ *sourcetest.Intake, stop context.CancelCauseFunc) { stop(stopped) }, stopped},
		"the intake fails":                         {func(in *sourcetest.Intake, _ context.CancelCauseFunc) { in.Crash() }, nil},
		"the intake fails while it is full": {func(in *sourcetest.Intake, _ context.CancelCauseFunc) {
			in.Fill()
			time.AfterFunc(time.Minute, in.Crash)
		}, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			for after := range 6 { // pieces that are handed over once it has begun to end
				synctest.Test(t, func(t *testing.T) {
					in := sourcetest.New()
					defer in.Close()
					ctx, stop := context.WithCancelCause(t.Context())
					defer stop(nil)
					f, _ := open(t, in, 1)
					r := feed.NewRelay(ctx, f)
					defer r.Close()
					relayed(t, r, nil, 1, 1)
					synctest.Wait()
					tt.end(in, stop)
					var err error
					for n := range after {
						if _, err = r.Send(lines(n+2, n+2), 1); err != nil {
							break
						}
					}
					if after > 3 && err == nil {
						t.Errorf("Send: got nil for %d pieces", after)
					}
					check := func(what string, err error) {
						t.Helper()
						if err == nil || tt.want != nil && !errors.Is(err, tt.want) {
							t.Errorf("%s after %d pieces: got %v, want an error, %v", what, after, err, tt.want)
						}
					}
					if err != nil {
						check("Send", err)
					}
					if after > 0 {
						check("Settle", r.Settle(t.Context()))
					}
					r.Close()
					in.Drain()
					expect(t, in, 1)
				})
			}
		})
	}
}

// A piece that fails is not followed by the one that waits: its lines would get numbers
// that belong to others.
func TestNothingFollowsWhatFails(t *testing.T) {
	in := &failing{Intake: sourcetest.New(), at: []byte(line(3))}
	defer in.Close()
	f, _, err := feed.Open(t.Context(), in, "test", producer, 1)
	if err != nil {
		t.Fatal(err)
	}
	r := feed.NewRelay(t.Context(), f)
	var buffer []byte
	for n := 1; n <= 10 && err == nil; n++ {
		buffer, err = r.Send(append(buffer, lines(n, n)...), 1)
	}
	if err := r.Settle(t.Context()); !errors.Is(err, errBroken) {
		t.Errorf("Settle: got %v, want %v", err, errBroken)
	}
	r.Close()
	if f, _ := open(t, in, 1); f != nil { // once everything is settled
		f.Close()
	}
	expect(t, in.Intake, 2)
}

var errBroken = errors.New("broken")

// failing fails once, at one line.
type failing struct {
	*sourcetest.Intake
	at []byte
}

func (in *failing) Open(ctx context.Context, o sources.Opening) (sources.Session, uint64, error) {
	s, acked, err := in.Intake.Open(ctx, o)
	return &failingSession{Session: s, in: in}, acked, err
}

type failingSession struct {
	sources.Session
	in *failing
}

func (s *failingSession) Submit(ctx context.Context, lines []byte) error {
	if bytes.Contains(lines, s.in.at) {
		return errBroken
	}
	return s.Session.Submit(ctx, lines)
}

// Who waits for what was sent can stop waiting, whatever the relay was told.
func TestRelaySettleEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := sourcetest.New()
		defer in.Close()
		f, _ := open(t, in, 1)
		in.Fill()
		r := feed.NewRelay(t.Context(), f)
		relayed(t, r, nil, 1, 1)
		stopped := errors.New("stopped")
		ctx, stop := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { stop(stopped) })
		time.AfterFunc(time.Hour, in.Drain)
		began := time.Now()
		if err := r.Settle(ctx); !errors.Is(err, stopped) || time.Since(began) != time.Second {
			t.Errorf("Settle: got %v after %s, want %v after 1 s", err, time.Since(began), stopped)
		}
		r.Close()
		f, _ = open(t, in, 1) // once everything is settled
		f.Close()
		expect(t, in, 1)
	})
}
