package runcmd

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
)

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
