package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
)

// Interruption is the cause of a context that a signal ended.
type Interruption struct {
	Signal os.Signal
	words  atomic.Pointer[func() string] // of a second signal; see LastWords
}

func (*Interruption) Error() string { return "interrupted" }

// UntilSignal returns a context that the first SIGTERM or SIGINT ends. A second signal ends
// the process at once, after one line on w: see LastWords.
func UntilSignal(parent context.Context, w io.Writer) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		in := &Interruption{Signal: <-signals}
		cancel(in)
		<-signals
		words := "docket: ended at once by a second signal"
		if say := in.words.Load(); say != nil {
			words = (*say)()
		}
		fmt.Fprintln(w, words)
		os.Exit(ExitFailed)
	}()
	return ctx, func() { cancel(nil) }
}

// Interrupted returns the Interruption that has ended ctx, nil when none has.
func Interrupted(ctx context.Context) *Interruption {
	in, _ := errors.AsType[*Interruption](context.Cause(ctx))
	return in
}

// IsInterruption reports whether err is the cause of a context that a signal has ended.
func IsInterruption(err error) bool {
	_, ok := errors.AsType[*Interruption](err)
	return ok
}

// LastWords makes a second signal print what say returns. It applies from the first signal
// on, until stop is called.
func LastWords(ctx context.Context, say func() string) (stop func() bool) {
	return context.AfterFunc(ctx, func() {
		if in := Interrupted(ctx); in != nil {
			in.words.Store(&say)
		}
	})
}
