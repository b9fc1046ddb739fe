package queuecmd

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/docket-export/docket/cli/internal/command"
	"github.com/docket-export/docket/cli/internal/terminal"
	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/exporter/queue"
	"github.com/docket-export/docket/exporter/queue/inspect"
	"github.com/docket-export/docket/internal/human"
)

func newQueueLs(kinds exporter.Kinds) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "Show what a queue at rest holds",
		Long: `ls shows the segments of a queue, where each sink stands in it, and what was set
aside. It believes what the files say of themselves: check reads everything.`,
		Example: `  docket queue ls
  docket queue ls -f docket.yaml -o json`,
		Args: command.NoArgs,
	}
	flags := newQueueFlags(cmd, kinds)
	output := command.OutputFlag(cmd, "text", "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return flags.with(func(cfg exporter.QueueConfig, o *inspect.Queue) error {
			c, err := o.Contents(cmd.Context())
			if err != nil {
				return err
			}
			if output.Value == "json" {
				return terminal.WriteJSON(cmd.OutOrStdout(), c.Document(cfg.Directory))
			}
			return writeContents(cmd.OutOrStdout(), c, cfg.Directory)
		})
	}
	return cmd
}

// writeContents shows c as text for a person.
func writeContents(w io.Writer, c inspect.Contents, dir string) error {
	fmt.Fprintf(w, "queue    %s in %s\nrecords  %s\nspace    %s\n", c.ID, dir, keptText(c), spaceText(c))
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	if len(c.Segments) > 0 {
		fmt.Fprintln(t, "\nSEGMENT\tEPOCH\tFIRST\tLAST\tRECORDS\tUSED\tFILE\tOLDEST\tNEWEST")
	}
	for _, s := range c.Segments {
		if s.Err != nil {
			fmt.Fprintf(t, "%s\t%d\t%d\t-\t-\t-\t%s\tcannot be read: %s\n", s.Name, s.Epoch, s.FirstSeq, human.Size(s.Size), human.OneLine(s.Err.Error()))
			continue
		}
		last := "-"
		if s.Records() > 0 {
			last = strconv.FormatUint(s.LastSeq, 10)
		}
		fmt.Fprintf(t, "%s\t%d\t%d\t%s\t%d\t%s\t%s\t%s\t%s\n", s.Name, s.Epoch, s.FirstSeq, last, s.Records(),
			human.Size(s.Bytes), human.Size(s.Size), human.Time(s.Oldest), human.Time(s.Newest))
	}
	if len(c.Cursors) > 0 {
		fmt.Fprintln(t, "\nSINK\tNEXT\tPENDING\tDELIVERED\tFILTERED\tDEAD-LETTERED\tDROPPED\tCORRUPT\tREPLAY")
	}
	for _, name := range slices.Sorted(maps.Keys(c.Cursors)) {
		a := c.Cursors[name]
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%s\n", name, a.Next, c.Pending(a),
			a.Delivered, a.Filtered, a.DeadLettered, a.Dropped, a.Corrupt, replayText(a))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s", setAsideText(c))
	return err
}

// keptText is one line on the records.
func keptText(c inspect.Contents) string {
	if c.LastSeq < c.FirstSeq {
		return fmt.Sprintf("none kept; the next is record %d", c.LastSeq+1)
	}
	text := fmt.Sprintf("%d to %d kept", c.FirstSeq, c.LastSeq)
	if n := len(c.Segments); n > 0 && !c.Segments[0].Oldest.IsZero() && !c.Segments[n-1].Newest.IsZero() {
		text += fmt.Sprintf(", received %s to %s", human.Time(c.Segments[0].Oldest), human.Time(c.Segments[n-1].Newest))
	}
	return text
}

// spaceText is one line on the disk space.
func spaceText(c inspect.Contents) string {
	var used, size, spare int64
	for _, s := range c.Segments {
		used += s.Bytes
		size += s.Size
	}
	for _, s := range c.Spares {
		spare += s.Size
	}
	text := fmt.Sprintf("%s used in %s of %s", human.Size(used), human.Count(uint64(len(c.Segments)), "segment"), human.Size(size))
	if n := uint64(len(c.Spares)); n > 0 {
		text += fmt.Sprintf(", %s of %s", human.Count(n, "spare"), human.Size(spare))
	}
	return text
}

func replayText(a queue.Account) string {
	if a.ReplayTo <= a.Next {
		return "-"
	}
	return fmt.Sprintf("up to %d", a.ReplayTo-1)
}

// setAsideText is what the checkpoint and the quarantine say, a line each.
func setAsideText(c inspect.Contents) string {
	var b strings.Builder
	if p := c.Checkpoint; p == nil {
		b.WriteString("positions   none that can be used\n")
	} else {
		fmt.Fprintf(&b, "positions   up to record %d: %s remembered", p.NextSeq-1, human.Count(uint64(p.Known()), "producer"))
		for _, name := range slices.Sorted(maps.Keys(p.Sources)) {
			fmt.Fprintf(&b, ", %d stored from %s", p.Sources[name].Stored, name)
			if lost := human.Counts(p.Sources[name].Lost); lost != "" {
				fmt.Fprintf(&b, " (reported lost by its producers: %s)", lost)
			}
		}
		b.WriteString("\n")
		for _, r := range p.Lost {
			fmt.Fprintf(&b, "lost        %s\n", r)
		}
	}
	for _, f := range c.Quarantine {
		fmt.Fprintf(&b, "quarantine  %s (%s)\n", f.Name, human.Size(f.Size))
	}
	return b.String()
}
