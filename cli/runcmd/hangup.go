package runcmd

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// onHangup says what SIGHUP does from now on, to a docket that runs: it must not kill it.
// On a terminal it means that the person has left, and end is called. Elsewhere it asks for
// the configuration to be read again: that is passed on.
func onHangup(onTerminal bool, end context.CancelFunc) (asked <-chan struct{}) {
	ask := make(chan struct{}, 1)
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	go func() {
		for range hangups {
			if onTerminal {
				end()
				continue
			}
			select {
			case ask <- struct{}{}:
			default: // it is to look already
			}
		}
	}()
	return ask
}
