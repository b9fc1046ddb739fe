package deadlettercmd

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/docket-export/docket/cli/internal/terminal"
	"github.com/docket-export/docket/exporter/adminclient"
	"github.com/docket-export/docket/exporter/deadletter"
	"github.com/docket-export/docket/internal/human"
)

// writeLetterCounts shows how many dead letters each sink has.
func writeLetterCounts(w io.Writer, counts []deadletter.Count, asJSON bool) error {
	if asJSON {
		return terminal.WriteJSON(w, counts)
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "SINK\tKEPT\tREDRIVING\tSIZE")
	for _, c := range counts {
		size := human.Size(c.Bytes)
		if c.MaxBytes > 0 {
			size += " of " + human.Size(c.MaxBytes)
		}
		fmt.Fprintf(t, "%s\t%d\t%d\t%s\n", c.Sink, c.Kept, c.Redriving, size)
	}
	return t.Flush()
}

// letterList shows the letters of one sink as they come.
type letterList struct {
	out   *bufio.Writer
	table *tabwriter.Writer // nil for JSON
	width int               // of the terminal; 0: there is none
	sink  string
	n     int
}

func newLetterList(w io.Writer, sink string, asJSON bool) *letterList {
	l := &letterList{out: bufio.NewWriterSize(w, 64<<10), sink: sink}
	if !asJSON {
		l.table = tabwriter.NewWriter(l.out, 0, 8, 2, ' ', 0)
		l.width = terminal.Width(w)
	}
	return l
}

func (l *letterList) add(s deadletter.Summary) error {
	l.n++
	if l.table == nil {
		text, err := json.Marshal(s)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(l.out, "%s%s", separatorJSON(l.n), text)
		return err
	}
	if l.n == 1 {
		fmt.Fprintln(l.table, "SEQ\tSTATE\tATTEMPTS\tLAST FAILED\tSTATUS\tREASON")
	}
	seq := s.ID[strings.LastIndexByte(s.ID, '-')+1:]
	status := s.Status
	if status == "" {
		status = "-"
	}
	// The columns before it take at most 62; the rest is for show.
	reason := cutText(human.OneLine(s.Reason), max(l.width-62, 0))
	_, err := fmt.Fprintf(l.table, "%s\t%s\t%d\t%s\t%s\t%s\n", seq, s.State, s.Attempts, human.Time(s.LastFailed), human.OneLine(status), reason)
	return err
}

func (l *letterList) end() error {
	switch {
	case l.table == nil:
		fmt.Fprint(l.out, endJSON(l.n))
	case l.n == 0:
		fmt.Fprintf(l.out, "sink %s has no dead letters\n", l.sink)
	default:
		if err := l.table.Flush(); err != nil {
			return err
		}
	}
	return l.out.Flush()
}

// separatorJSON stands before the n-th element of an array that has one a line, and
// endJSON behind the last.
func separatorJSON(n int) string {
	if n == 1 {
		return "[\n"
	}
	return ",\n"
}

func endJSON(n int) string {
	if n == 0 {
		return "[]\n"
	}
	return "\n]\n"
}

// cutText shortens a text to at most so many characters; 0: to none.
func cutText(s string, most int) string {
	text := []rune(s)
	if most == 0 || len(text) <= most {
		return s
	}
	return string(text[:max(most-3, 0)]) + "..."
}

// letterWriter shows letters with their records.
type letterWriter struct {
	w    io.Writer
	json bool
	many bool // as an array
	n    int
}

func (l *letterWriter) add(s deadletter.Summary, record []byte) error {
	l.n++
	if !l.json {
		return l.addText(s, record)
	}
	text, err := s.WithRecord(record)
	if err != nil {
		return err
	}
	before, behind := "", "\n"
	if l.many {
		before, behind = separatorJSON(l.n), ""
	}
	_, err = fmt.Fprintf(l.w, "%s%s%s", before, text, behind)
	return err
}

func (l *letterWriter) addText(s deadletter.Summary, record []byte) error {
	if l.n > 1 {
		fmt.Fprintln(l.w)
	}
	t := tabwriter.NewWriter(l.w, 0, 8, 2, ' ', 0)
	for _, line := range [][2]string{
		{"id", s.ID}, {"sink", s.Sink}, {"state", s.State}, {"reason", s.Reason}, {"status", s.Status}, {"answer", s.Answer},
		{"attempts", fmt.Sprint(s.Attempts)}, {"failed", "first " + human.Time(s.FirstFailed) + ", last " + human.Time(s.LastFailed)},
		{"received", human.Time(s.Received)}, {"source", s.Source}, {"producer", s.Producer},
	} {
		if line[1] != "" {
			fmt.Fprintf(t, "%s\t%s\n", line[0], human.OneLine(line[1]))
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(l.w, "record    %s\n%s\n", human.Size(int64(len(record))), record)
	return err
}

func (l *letterWriter) end() error {
	if !l.json || !l.many {
		return nil
	}
	_, err := io.WriteString(l.w, endJSON(l.n))
	return err
}

// changedJSON is the form of redrive and purge -o json.
type changedJSON struct {
	Sink    string   `json:"sink"`
	Count   int      `json:"count"`
	Unknown []string `json:"unknown"` // ids without a dead letter
}

// writeLettersChanged says what came of a change of asked letters; 0 stands for all.
func writeLettersChanged(w io.Writer, what adminclient.LetterChange, sink string, c deadletter.Changed, asked int, asJSON bool) error {
	if asJSON {
		return terminal.WriteJSON(w, changedJSON{sink, c.Count, append([]string{}, c.Unknown...)})
	}
	var text string
	switch records := human.Count(uint64(c.Count), "record"); {
	case c.Count == 0 && asked == 0 && what == adminclient.Redrive:
		text = "sink " + sink + " has no more dead letters to redrive"
	case c.Count == 0 && asked == 0:
		text = "sink " + sink + " has no dead letters"
	case c.Count == 0 && asked > len(c.Unknown):
		text = "these dead letters already wait to be sent"
	case c.Count == 0:
		return nil // what is unknown is said as an error
	case what == adminclient.Purge:
		text = records + " of sink " + sink + " deleted"
	default:
		text = "redriving " + records + " of sink " + sink + ": docket deadletter ls shows them until they are delivered"
	}
	_, err := fmt.Fprintln(w, text)
	return err
}

// confirmPurge asks a person whether every dead letter of a sink is to go.
func confirmPurge(ctx context.Context, count func(context.Context) ([]deadletter.Count, error), sink string, in io.Reader, w io.Writer) error {
	counts, err := count(ctx)
	if err != nil {
		return err
	}
	for _, c := range counts {
		if n := c.Kept + c.Redriving; c.Sink == sink && n > 0 {
			fmt.Fprintf(w, "Delete %s of sink %s for good? [y/N] ", human.Count(uint64(n), "record"), sink)
			answer, err := bufio.NewReader(in).ReadString('\n')
			if err != nil && !errors.Is(err, io.EOF) {
				return fmt.Errorf("read the answer: %w", err)
			}
			if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
				return errors.New("nothing was changed")
			}
		}
	}
	return nil
}
