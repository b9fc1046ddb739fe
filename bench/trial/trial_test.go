package trial

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// What fails ends the measurement, and everything is cleaned up, the last thing first.
func TestRun(t *testing.T) {
	var done []string
	err := Run(t.Context(), func(tr *T) {
		tr.Cleanup(func() error { done = append(done, "first"); return io.EOF })
		tr.Cleanup(func() error {
			if !tr.Failed() {
				t.Error("the measurement has failed, and cleaning up does not know")
			}
			done = append(done, "second")
			Check(io.ErrNoProgress)
			return nil
		})
		if got := Must(7, nil); got != 7 {
			t.Errorf("got %d, want 7", got)
		}
		Must(0, io.ErrClosedPipe)
		done = append(done, "never")
	})
	if want := []string{"second", "first"}; !slices.Equal(done, want) {
		t.Errorf("got %v, want %v", done, want)
	}
	for _, want := range []error{io.ErrClosedPipe, io.ErrNoProgress, io.EOF} {
		if !errors.Is(err, want) {
			t.Errorf("got error %v, want %v in it", err, want)
		}
	}
	if err := Run(t.Context(), func(*T) {}); err != nil {
		t.Errorf("a measurement that does nothing: got error %v", err)
	}
}

// A mistake in a measurement is no failure of what is measured, and is cleaned up behind
// all the same.
func TestRunLeavesPanicsAlone(t *testing.T) {
	cleaned := false
	defer func() {
		if got := recover(); got != "a mistake" || !cleaned {
			t.Errorf("got %v and cleaned up: %v, want the panic and true", got, cleaned)
		}
	}()
	_ = Run(t.Context(), func(tr *T) {
		tr.Cleanup(func() error { cleaned = true; return nil })
		panic("a mistake")
	})
}

func TestPollAndSleepEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		err := Run(t.Context(), func(tr *T) {
			tries := 0
			tr.Poll("for it", time.Second, time.Minute, func() bool { tries++; return tries == 3 })
			tr.Sleep(time.Second)
			if took := time.Since(began); took != 3*time.Second {
				t.Errorf("got %v, want 3 s", took)
			}
			tr.Poll("for ever", time.Second, time.Minute, func() bool { return false })
		})
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Minute+3*time.Second {
			t.Errorf("got error %v after %v, want the end of the wait after a minute", err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := Run(ctx, func(tr *T) { tr.Sleep(time.Hour) }); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got error %v, want the end of the sleep", err)
		}
	})
}

// A part ends what it has started, and with it the measurement where it fails.
func TestPart(t *testing.T) {
	ended := false
	err := Run(t.Context(), func(tr *T) {
		tr.Part("", 0, func(tr *T) {
			tr.Cleanup(func() error { ended = true; return nil })
		})
		if !ended {
			t.Error("what the part has started has not ended with it")
		}
		tr.Part("some", time.Millisecond, func(tr *T) { tr.Sleep(time.Hour) })
		t.Error("the measurement goes on")
	})
	if err == nil || err.Error() != "some: waiting: context deadline exceeded" {
		t.Errorf("got error %v, want the end of the part", err)
	}
}
