package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"

	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/sources/streamsource"
)

func newRun(kinds Kinds) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Take records in, keep them on disk and deliver them",
		Long: `run is the sidecar. It takes records in from its sources, puts each on disk before it
says so, and delivers them to every sink.

Without -f everything lies below ./docket-data: the socket, the queue and a file
export, with the status on 127.0.0.1:9464. Where the environment has ROOT_PATH, as in
the place that Gatekeeper's Helm chart has for an exporter, docket reads what Gatekeeper
exports below that directory (and deletes it, with DELETE_AFTER_READ=true) and writes
the records to standard output.

SIGTERM or SIGINT stops it: docket takes lines until the producers close, for at most
four fifths of shutdown.drainTimeout, and delivers until that is over. The rest is
kept for the next start. A second signal ends docket at once. Nothing stored is lost
either way. SIGHUP changes nothing: docket reads its configuration when it starts.`,
		Example: `  docket run                       try it out
  docket run -f docket.yaml`,
		Args: noArgs,
	}
	flags := configFlags{kinds: kinds}
	flags.add(cmd)
	format := &choice{words: []string{"text", "json"}}
	cmd.Flags().Var(format, "log-format", "form of the log (default text on a terminal, json otherwise)")
	level := &choice{value: "info", words: []string{"debug", "info", "warn", "error"}}
	cmd.Flags().Var(level, "log-level", "least level that is logged")

	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := flags.load()
		if err != nil {
			return err
		}
		sockets, err := streamsource.Inherit()
		if err != nil {
			return failed(err)
		}
		handOver(cfg, sockets)
		log := newLog(os.Stderr, format.value, level.value)
		if redacts(cfg) {
			if err := forbidCores(); err != nil {
				return failed(err)
			}
		}
		ctx, end := context.WithCancel(cmd.Context())
		defer end()
		onHangup(isTerminal(os.Stderr), end, log)
		memory := memoryFor(os.Getenv, os.DirFS("/"), cfg.Memory(), log)
		defer time.AfterFunc(startTime, memory.apply).Stop()
		switch {
		case flags.slot != nil:
			flags.slot.explain(log, cfg)
		case flags.file == "" && isTerminal(os.Stderr):
			printBanner(os.Stderr, cmp.Or(flags.data, defaultDataDir), cfg)
		}
		if b := thisBuild(); b.Unsafe {
			log.Error(unsafeBuild + ": never keep records with it")
		}
		for _, warning := range warnings(cfg) {
			log.Warn(warning)
		}
		e, err := exporter.New(cfg, exporter.Options{Log: log, Version: thisBuild().Version, Quiet: debug.FreeOSMemory})
		if err != nil {
			return failed(err)
		}
		defer lastWords(ctx, func() string {
			return "docket run: ended at once by a second signal: what is not delivered is kept for the next start"
		})()
		return failed(e.Run(ctx))
	}
	return cmd
}

// newLog returns the log of a running exporter. The words are those of the flags;
// without a format it depends on who reads w.
func newLog(w io.Writer, format, level string) *slog.Logger {
	var least slog.Level
	if err := least.UnmarshalText([]byte(level)); err != nil {
		panic(err) // the flag takes only levels
	}
	options := &slog.HandlerOptions{Level: least}
	if format == "json" || format == "" && !isTerminal(w) {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// printBanner tells a person who tries docket out where things are.
func printBanner(w io.Writer, data string, cfg *exporter.Config) {
	flag := ""
	if data != defaultDataDir {
		flag = " --data " + data
	}
	fmt.Fprintf(w, `docket runs with its built-in configuration; see: docket config%[3]s

  socket  %[1]s
  export  %[2]s
  status  http://%[4]s/status

Try, in another terminal:

  echo '%[5]s' | docket send%[3]s
  docket status

Ctrl-C stops it.

`, socketPath(cfg), exportDirectory(cfg), flag, cfg.Admin.Address, exampleRecord)
}
