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
	"github.com/docket-export/docket/exporter/adminclient"
	"github.com/docket-export/docket/exporter/queue/inspect"
	"github.com/docket-export/docket/exporter/queue/segment"
	"github.com/docket-export/docket/internal/human"
)

func newQueueLs(kinds exporter.Kinds) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "Show what a queue holds",
		Long: `ls shows the segments of a queue, the position of each sink, and the files in
quarantine. It asks the docket that runs on the queue. While no docket runs it
looks at the files. It trusts what the files say about themselves: docket queue
check reads everything.`,
		Example: `  docket queue ls
  docket queue ls -f docket.yaml -o json`,
		Args: command.NoArgs,
	}
	flags := newLookFlags(cmd, kinds)
	output := command.OutputFlag(cmd, "text", "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		write := func(d inspect.Contents) error {
			if output.Value == "json" {
				return terminal.WriteJSON(cmd.OutOrStdout(), d)
			}
			return writeContents(cmd.OutOrStdout(), d)
		}
		return flags.with(cmd.Context(), func(client *adminclient.Client) error {
			q, err := client.Queue(cmd.Context())
			if err != nil {
				return err
			}
			return write(q.Contents)
		}, func(o *inspect.Queue) error {
			c, err := o.Contents(cmd.Context())
			if err != nil {
				return err
			}
			return write(c)
		})
	}
	return cmd
}

// writeContents shows d as text for a person.
func writeContents(w io.Writer, d inspect.Contents) error {
	fmt.Fprintf(w, "queue    %s in %s\nrecords  %s\nspace    %s\n", d.ID, d.Directory, keptText(d), spaceText(d))
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	if len(d.Segments) > 0 {
		fmt.Fprintln(t, "\nSEGMENT\tEPOCH\tFIRST\tLAST\tRECORDS\tUSED\tFILE\tOLDEST\tNEWEST")
	}
	for _, s := range d.Segments {
		if s.Error != "" {
			fmt.Fprintf(t, "%s\t%d\t%d\t-\t-\t-\t%s\tcannot be read: %s\n", s.Name, s.Epoch, s.FirstSeq, human.Size(s.Size), human.OneLine(s.Error))
			continue
		}
		last := "-"
		if s.Records > 0 {
			last = strconv.FormatUint(s.LastSeq, 10)
		}
		fmt.Fprintf(t, "%s\t%d\t%d\t%s\t%d\t%s\t%s\t%s\t%s\n", s.Name, s.Epoch, s.FirstSeq, last, s.Records,
			human.Size(s.Bytes), human.Size(s.Size), human.Time(s.Oldest), human.Time(s.Newest))
	}
	if len(d.Sinks) > 0 {
		fmt.Fprintln(t, "\nSINK\tNEXT\tPENDING\tDELIVERED\tFILTERED\tDEAD-LETTERED\tDROPPED\tCORRUPT\tREPLAY")
	}
	for _, name := range slices.Sorted(maps.Keys(d.Sinks)) {
		a := d.Sinks[name]
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%s\n", name, a.Next, a.Pending,
			a.Delivered, a.Filtered, a.DeadLettered, a.Dropped, a.Corrupt, replayText(a))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s", setAsideText(d))
	return err
}

// keptText is one line on the records.
func keptText(d inspect.Contents) string {
	if d.LastSeq < d.FirstSeq {
		return fmt.Sprintf("none kept; the next is record %d", d.LastSeq+1)
	}
	text := fmt.Sprintf("%d to %d kept", d.FirstSeq, d.LastSeq)
	if n := len(d.Segments); n > 0 && !d.Segments[0].Oldest.IsZero() && !d.Segments[n-1].Newest.IsZero() {
		text += fmt.Sprintf(", received %s to %s", human.Time(d.Segments[0].Oldest), human.Time(d.Segments[n-1].Newest))
	}
	return text
}

// spaceText is one line on the disk space.
func spaceText(d inspect.Contents) string {
	var used, size int64
	for _, s := range d.Segments {
		used += s.Bytes
		size += s.Size
	}
	return fmt.Sprintf("%s used in %s of %s", human.Size(used), human.Count(uint64(len(d.Segments)), "segment"), human.Size(size))
}

func replayText(a inspect.AccountDocument) string {
	if a.ReplayTo == 0 {
		return "-"
	}
	return fmt.Sprintf("up to %d", a.ReplayTo-1)
}

// setAsideText is what the checkpoint and the quarantine say, a line each.
func setAsideText(d inspect.Contents) string {
	var b strings.Builder
	if p := d.Positions; p == nil {
		b.WriteString("positions   none usable\n")
	} else {
		fmt.Fprintf(&b, "positions   up to record %d: %s remembered", p.LastSeq, human.Count(uint64(p.Producers), "producer"))
		for _, name := range slices.Sorted(maps.Keys(p.Sources)) {
			fmt.Fprintf(&b, ", %d stored from %s", p.Sources[name].Stored, name)
			if lost := human.Counts(p.Sources[name].Lost); lost != "" {
				fmt.Fprintf(&b, " (reported lost by its producers: %s)", lost)
			}
		}
		b.WriteString("\n")
		for _, r := range p.Lost {
			fmt.Fprintf(&b, "lost        %s\n", segment.SeqRange{From: r.FirstSeq, To: r.LastSeq + 1})
		}
	}
	for _, f := range d.Quarantine {
		fmt.Fprintf(&b, "quarantine  %s (%s)\n", f.Name, human.Size(f.Size))
	}
	return b.String()
}
