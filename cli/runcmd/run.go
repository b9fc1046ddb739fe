// Package runcmd has the command that is the sidecar: docket run.
package runcmd

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/docket-export/docket/cli/internal/command"
	"github.com/docket-export/docket/cli/internal/terminal"
	"github.com/docket-export/docket/cli/versioncmd"
	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/internal/human"
)

// New returns docket run.
func New(kinds exporter.Kinds) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Receive records, keep them on disk and deliver them",
		Long: `run is the sidecar. It receives records from its sources, acknowledges each when
it is on disk, and delivers them to every sink.

Without -f, docket keeps everything below ./docket-data: the socket, the queue
and a file export. Its status is on 127.0.0.1:9464.

When the environment has ROOT_PATH, as in the exporter slot of Gatekeeper's Helm
chart, docket reads the files that Gatekeeper exports below that directory. With
DELETE_AFTER_READ=true docket deletes them after reading. It writes the records
to standard output.

SIGTERM or SIGINT stops docket. It accepts lines until the producers close, for
at most four fifths of shutdown.drainTimeout, and delivers until
shutdown.drainTimeout is over. Every 3 s it logs which producers and sinks it
waits for, and how much is left. The queue keeps the rest for the next start. A
second signal ends docket at once. Nothing stored is lost either way.

docket reads FILE again whenever it changes, and on SIGHUP. Unchanged sources
and sinks keep running; the others are added, changed or removed without a
restart. An invalid FILE changes nothing: docket status says why.

When FILE is invalid at the start, docket runs with the configuration that took
effect last. This configuration is stored in the queue's directory, which docket
takes from FILE. Give the directory with --queue, in case FILE cannot be parsed
at all.

With --once docket receives nothing. It delivers what the queue holds to every
sink and exits. It exits 0 when every sink has everything. Otherwise it reports
what is left: records that a signal interrupted, records of a sink that refuses
all of them, dead letters, and records lost to damage on disk. It waits for a
sink that is down. Without -f, --once uses the configuration that is stored in
the directory of --queue.`,
		Example: `  docket run                       try it out
  docket run -f docket.yaml
  docket run -f docket.yaml --queue /var/lib/docket/queue
  docket run --once -f docket.yaml`,
		Args: command.NoArgs,
	}
	flags := command.ConfigFlags{Kinds: kinds}
	flags.Add(cmd)
	queue := cmd.Flags().String("queue", "", "directory of the queue, for a FILE that cannot be parsed")
	once := cmd.Flags().Bool("once", false, "receive nothing, deliver what the queue holds, and exit")
	newLog := command.LogFlags(cmd, os.Stderr)

	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		start, err := load(&flags, *queue, *once)
		if err != nil {
			return err
		}
		cfg := start.cfg
		if *once {
			if err := mustExist(cfg.Queue.Directory); err != nil {
				return err
			}
		}
		host := &host{log: newLog()}
		if err := host.prepare(cfg); err != nil {
			return command.Failed(err)
		}
		log := host.log
		ctx, end := context.WithCancel(cmd.Context())
		defer end()
		hangups := onHangup(terminal.IsTerminal(os.Stderr), end)
		host.memory(cfg.Memory()).Apply()
		switch {
		case flags.Slot != nil:
			flags.Slot.Explain(log, cfg)
		case flags.File == "" && !*once && terminal.IsTerminal(os.Stderr):
			printBanner(os.Stderr, cmp.Or(flags.Data, command.DefaultDataDir), cfg)
		}
		if start.unread != nil {
			log.Warn("sinks removed since the last run are kept, but receive nothing: their configuration cannot be read", "error", start.unread)
		}
		host.warn(cfg)
		report := exporter.NewConfigReport("", "")
		if flags.File != "" {
			report = exporter.NewConfigReport(flags.File, exporter.StoredPath(cfg.Queue.Directory))
		}
		e, err := exporter.New(cfg, exporter.Options{
			Log: log, Version: versioncmd.This().Version, Config: report, Once: *once, Store: flags.File != "", Stored: start.stored,
		})
		if err != nil {
			return command.Failed(err)
		}
		report.Applied(time.Now(), "")
		r := &reloader{file: flags.File, readOnce: start.invalid == nil && flags.File != "" && !command.IsRegular(flags.File), kinds: kinds, text: start.text, report: report, log: log, apply: func(cfg *exporter.Config) ([]string, error) {
			return reload(e, host, cfg)
		}}
		if start.invalid != nil {
			r.fail(start.invalid)
			log.Warn("docket starts with the configuration that took effect last", "file", exporter.StoredPath(cfg.Queue.Directory))
		}
		var reloading sync.WaitGroup
		defer reloading.Wait()
		defer end()
		reloading.Go(func() { r.run(ctx, hangups) })
		defer command.LastWords(ctx, func() string { return lastWords(e.Left()) })()
		return command.Failed(e.Run(ctx))
	}
	return cmd
}

// reload makes cfg the configuration in force.
func reload(e *exporter.Exporter, h *host, cfg *exporter.Config) (waiting []string, err error) {
	if err := h.prepare(cfg); err != nil {
		return nil, err
	}
	h.warn(cfg)
	waiting, err = e.Reload(cfg)
	h.memory(e.Memory()).Apply()
	return waiting, err
}

// lastWords are those of a docket that a second signal ends; left is what each sink has yet
// to deliver.
func lastWords(left map[string]uint64) string {
	what := "nothing"
	if len(left) > 0 {
		what = human.Counts(left)
	}
	return "docket run: ended at once by a second signal; left for the next start, by sink: " + what
}

// printBanner tells a person who tries docket out where things are.
func printBanner(w io.Writer, data string, cfg *exporter.Config) {
	flag := ""
	if data != command.DefaultDataDir {
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

`, command.First(cfg, config.Socket), command.First(cfg, config.Directory), flag, cfg.Admin.Address, command.ExampleRecord)
}
