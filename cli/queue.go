package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/exporter/queue"
)

func newQueue(kinds Kinds) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "queue",
		Short: "Look at a queue at rest, check it and repair it",
		Long: `queue works on the files of a queue while no docket runs on them. All of its
commands but repair --apply only look: they change nothing.`,
		Example: `  docket queue ls                  what the queue below ./docket-data holds
  docket queue check -f docket.yaml
  docket queue check --queue /tmp/copy-of-a-queue`,
		Args: cobra.ArbitraryArgs, // or cobra would show the help and say that all is well
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return fmt.Errorf("unknown command %q for %q", args[0], cmd.CommandPath())
		}
		return cmd.Help()
	}
	cmd.AddCommand(newQueueLs(kinds), newQueueCat(kinds), newQueueCheck(kinds), newQueueRepair(kinds))
	return cmd
}

// queueFlags are the flags that say which queue a command is about.
type queueFlags struct {
	configFlags
	directory string
}

func (f *queueFlags) add(cmd *cobra.Command) {
	f.configFlags.add(cmd)
	cmd.Flags().StringVar(&f.directory, "queue", "", "directory of the queue itself, such as a copy; needs no configuration")
}

// load returns the section "queue" of the configuration, or the little that is
// known of a queue without one.
func (f *queueFlags) load() (exporter.QueueConfig, error) {
	if f.directory == "" {
		cfg, err := f.configFlags.load()
		if err != nil {
			return exporter.QueueConfig{}, err
		}
		return cfg.Queue, nil
	}
	if f.file != "" || f.data != "" {
		return exporter.QueueConfig{}, errors.New("--queue excludes --file and --data: they name a configuration, it names the directory itself")
	}
	return exporter.QueueConfig{Directory: f.directory}, nil
}

// with calls do with the queue that the flags name.
func (f *queueFlags) with(do func(exporter.QueueConfig, *queue.Offline) error) error {
	cfg, err := f.load()
	if err != nil {
		return err
	}
	return withQueue(cfg.Directory, func(o *queue.Offline) error { return do(cfg, o) })
}

// withQueue calls do with the queue in dir, which no docket can open until do
// returns. An error of do is one of running, unless it says otherwise.
func withQueue(dir string, do func(*queue.Offline) error) error {
	o, err := queue.OpenOffline(dir, nil)
	if inUse, ok := errors.AsType[*queue.InUseError](err); ok {
		return failed(fmt.Errorf("queue %s is in use by %s: this command is for a queue at rest; "+
			"stop docket first, or ask it with: docket status", dir, processText(inUse.PID)))
	}
	if errors.Is(err, queue.ErrNoQueue) {
		return &configError{err: fmt.Errorf("docket: %w", err)}
	}
	if err != nil {
		return failed(err)
	}
	err = do(o)
	return failed(errors.Join(err, o.Close()))
}

func processText(pid int) string {
	if pid == 0 {
		return "another process"
	}
	return "process " + strconv.Itoa(pid)
}

// writeJSON writes v as one document.
func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// timeText is a time to the second, in a form that --from takes; "-" for none.
func timeText(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

// countText is "1 record" or "7 records".
func countText(n uint64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.FormatUint(n, 10) + " " + noun + "s"
}

// seqRangeJSON is a range of records in JSON; both ends belong to it.
type seqRangeJSON struct {
	FirstSeq uint64 `json:"firstSeq"`
	LastSeq  uint64 `json:"lastSeq"`
}

// rangesJSON leaves out the empty ones, and is [] rather than null.
func rangesJSON(ranges ...queue.SeqRange) []seqRangeJSON {
	list := []seqRangeJSON{}
	for _, r := range ranges {
		if r.To > r.From {
			list = append(list, seqRangeJSON{r.From, r.To - 1})
		}
	}
	return list
}
