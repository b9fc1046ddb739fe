package queuecmd

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

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
	var flags queueFlags
	flags.Kinds = kinds
	flags.add(cmd)
	output := command.OutputFlag(cmd, "text", "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return flags.with(func(cfg exporter.QueueConfig, o *inspect.Queue) error {
			c, err := o.Contents(cmd.Context())
			if err != nil {
				return err
			}
			if output.Value == "json" {
				return terminal.WriteJSON(cmd.OutOrStdout(), contentsToJSON(c, cfg.Directory))
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
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%s\n", name, a.Next, pending(c, a),
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

// pending is how many records a sink has yet to get.
func pending(c inspect.Contents, a queue.Account) uint64 {
	return a.Pending(max(c.LastSeq+1, a.Next) - 1)
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
	if p := c.Positions; p == nil {
		b.WriteString("positions   none that can be used\n")
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
			fmt.Fprintf(&b, "lost        %s\n", r)
		}
	}
	for _, f := range c.Quarantine {
		fmt.Fprintf(&b, "quarantine  %s (%s)\n", f.Name, human.Size(f.Size))
	}
	return b.String()
}

// contentsJSON is the form of ls -o json.
type contentsJSON struct {
	ID         string                 `json:"id"`
	Directory  string                 `json:"directory"`
	FirstSeq   uint64                 `json:"firstSeq"`
	LastSeq    uint64                 `json:"lastSeq"`
	Segments   []segmentJSON          `json:"segments"`
	Spares     []fileJSON             `json:"spares"`
	Sinks      map[string]accountJSON `json:"sinks"`
	Positions  *positionsJSON         `json:"positions"`
	Quarantine []fileJSON             `json:"quarantine"`
}

type segmentJSON struct {
	Name     string     `json:"name"`
	Epoch    uint64     `json:"epoch"`
	FirstSeq uint64     `json:"firstSeq"`
	LastSeq  uint64     `json:"lastSeq"`
	Records  uint64     `json:"records"`
	Bytes    int64      `json:"bytes"`
	FileSize int64      `json:"fileSize"`
	Oldest   *time.Time `json:"oldest,omitempty"`
	Newest   *time.Time `json:"newest,omitempty"`
	Error    string     `json:"error,omitempty"`
}

type fileJSON struct {
	Name string `json:"name"`
	Size int64  `json:"size"`
}

type accountJSON struct {
	Next         uint64 `json:"next"`
	Pending      uint64 `json:"pending"`
	Delivered    uint64 `json:"delivered"`
	Filtered     uint64 `json:"filtered"`
	DeadLettered uint64 `json:"deadLettered"`
	Dropped      uint64 `json:"dropped"`
	Corrupt      uint64 `json:"corrupt"`
	ReplayTo     uint64 `json:"replayTo,omitempty"` // while a replay is under way
}

type positionsJSON struct {
	LastSeq   uint64                       `json:"lastSeq"`
	Producers int                          `json:"producers"`
	Sources   map[string]queue.SourceTally `json:"sources"`
	Lost      []seqRangeJSON               `json:"lost"`
}

func contentsToJSON(c inspect.Contents, dir string) contentsJSON {
	j := contentsJSON{
		ID: c.ID, Directory: dir, FirstSeq: c.FirstSeq, LastSeq: c.LastSeq,
		Segments: []segmentJSON{}, Spares: filesToJSON(c.Spares), Quarantine: filesToJSON(c.Quarantine),
		Sinks: map[string]accountJSON{},
	}
	for _, s := range c.Segments {
		found := segmentJSON{
			Name: s.Name, Epoch: s.Epoch, FirstSeq: s.FirstSeq, LastSeq: s.LastSeq, Records: s.Records(), Bytes: s.Bytes, FileSize: s.Size,
		}
		if !s.Oldest.IsZero() {
			found.Oldest, found.Newest = &s.Oldest, &s.Newest
		}
		if s.Err != nil {
			found.Error = s.Err.Error()
		}
		j.Segments = append(j.Segments, found)
	}
	for name, a := range c.Cursors {
		j.Sinks[name] = accountToJSON(a, pending(c, a))
	}
	if p := c.Positions; p != nil {
		j.Positions = &positionsJSON{LastSeq: p.LastSeq, Producers: p.Producers, Sources: p.Sources, Lost: rangesJSON(p.Lost...)}
	}
	return j
}

func accountToJSON(a queue.Account, pending uint64) accountJSON {
	j := accountJSON{
		Next: a.Next, Pending: pending, Delivered: a.Delivered, Filtered: a.Filtered,
		DeadLettered: a.DeadLettered, Dropped: a.Dropped, Corrupt: a.Corrupt,
	}
	if a.ReplayTo > a.Next {
		j.ReplayTo = a.ReplayTo
	}
	return j
}

func filesToJSON(files []inspect.StoredFile) []fileJSON {
	list := []fileJSON{}
	for _, f := range files {
		list = append(list, fileJSON{f.Name, f.Size})
	}
	return list
}
