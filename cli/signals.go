package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
)

// interruption is the cause of the end of a context that a signal has ended.
type interruption struct {
	signal os.Signal
	words  atomic.Pointer[func() string] // of a second signal; see lastWords
}

func (*interruption) Error() string { return "interrupted" }

// untilSignal returns a context that the first SIGTERM or SIGINT ends. A second
// one ends the process: whoever sends it does not want to wait. w hears what was left
// undone.
func untilSignal(parent context.Context, w io.Writer) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		in := &interruption{signal: <-signals}
		cancel(in)
		<-signals
		words := "docket: ended at once by a second signal"
		if say := in.words.Load(); say != nil {
			words = (*say)()
		}
		fmt.Fprintln(w, words)
		os.Exit(exitFailed)
	}()
	return ctx, func() { cancel(nil) }
}

// interrupted returns the interruption that has ended ctx, nil when none has.
func interrupted(ctx context.Context) *interruption {
	in, _ := errors.AsType[*interruption](context.Cause(ctx))
	return in
}

func isInterruption(err error) bool {
	_, ok := errors.AsType[*interruption](err)
	return ok
}

// lastWords has a second signal say what say returns, from the first one on and until
// stop is called.
func lastWords(ctx context.Context, say func() string) (stop func() bool) {
	return context.AfterFunc(ctx, func() {
		if in := interrupted(ctx); in != nil {
			in.words.Store(&say)
		}
	})
}

// onHangup says what SIGHUP does from now on, to a docket that runs: it must not kill
// it. In a container it asks for the configuration to be read again, which docket does
// at its start alone: docket goes on. On a terminal it means that the person has left,
// and end is called.
func onHangup(onTerminal bool, end context.CancelFunc, log *slog.Logger) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	go func() {
		for range hangups {
			if onTerminal {
				end()
				continue
			}
			log.Info("SIGHUP: nothing to reload, docket goes on: restart it for another configuration")
		}
	}()
}
