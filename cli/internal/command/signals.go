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

// interruption is the cause of the end of a context that a signal has ended.
type interruption struct {
	Signal os.Signal
	words  atomic.Pointer[func() string] // of a second signal; see LastWords
}

func (*interruption) Error() string { return "interrupted" }

// UntilSignal returns a context that the first SIGTERM or SIGINT ends. A second
// one ends the process: the sender does not want to wait. w hears what was left
// undone.
func UntilSignal(parent context.Context, w io.Writer) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		in := &interruption{Signal: <-signals}
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

// Interrupted returns the interruption that has ended ctx, nil when none has.
func Interrupted(ctx context.Context) *interruption {
	in, _ := errors.AsType[*interruption](context.Cause(ctx))
	return in
}

func IsInterruption(err error) bool {
	_, ok := errors.AsType[*interruption](err)
	return ok
}

// LastWords has a second signal say what say returns, from the first one on and until
// stop is called.
func LastWords(ctx context.Context, say func() string) (stop func() bool) {
	return context.AfterFunc(ctx, func() {
		if in := Interrupted(ctx); in != nil {
			in.words.Store(&say)
		}
	})
}
