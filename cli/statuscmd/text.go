package statuscmd

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/internal/human"
)

// margin is below the words "queue", "ledger", "config" and "metrics".
const margin = "        "

// writeStatus shows s as text for a person.
func writeStatus(w io.Writer, s exporter.Status, now time.Time) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	columns := columnsOf(s.Ledger)
	fmt.Fprintf(t, "SINK\tSTATE\t%s\tLAG\n", strings.Join(titles(columns), "\t"))
	for _, sink := range s.Sinks {
		fmt.Fprintf(t, "%s\t%s\t", sink.Name, stateText(sink.State, sink.Since, now))
		account := s.Ledger.Sinks[sink.Name]
		account.Pending = sink.Pending
		for _, c := range columns {
			fmt.Fprintf(t, "%d\t", c.of(account))
		}
		fmt.Fprintln(t, human.Lag(sink.LagSeconds))
	}
	for _, sink := range s.Sinks {
		fmt.Fprint(t, sinkNote(sink, now)+transactionNote(sink))
	}
	fmt.Fprintln(t)
	writeSources(t, s.Sources, now)
	for _, source := range s.Sources {
		fmt.Fprint(t, note(source.Name+": ", source.Reason)+lostNote(source)+passedNote(source)+auditNote(source, now))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s%s%s%s", queueText(s.Queue, now), ledgerText(s.Ledger), configText(s.Config), metricsText(s.Metrics))
	return err
}

// writeSources shows the sources: the connections where producers connect, and what is
// known to be lost where there is some.
func writeSources(w io.Writer, sources []exporter.SourceStatus, now time.Time) {
	connected := slices.ContainsFunc(sources, func(s exporter.SourceStatus) bool { return s.Address != "" })
	lost := slices.ContainsFunc(sources, func(s exporter.SourceStatus) bool { return s.Lost > 0 })
	fmt.Fprint(w, "SOURCE\tSTATE\tRECORDS\tRATE\tLAST")
	if connected {
		fmt.Fprint(w, "\tCONNECTIONS")
	}
	if lost {
		fmt.Fprint(w, "\tLOST")
	}
	fmt.Fprintln(w)
	for _, s := range sources {
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s", s.Name, s.State, s.Records, human.Rate(s.RecordsPerSecond), agoText(s.LastRecord, now))
		if connected && s.Address != "" {
			fmt.Fprintf(w, "\t%d", s.Connections)
		} else if connected {
			fmt.Fprint(w, "\t-")
		}
		if lost {
			fmt.Fprintf(w, "\t%d", s.Lost)
		}
		fmt.Fprintln(w)
	}
}

// lostNote is a line on how much is known to be lost; nothing where nobody knows.
func lostNote(s exporter.SourceStatus) string {
	var parts []string
	if s.LostLines > 0 {
		parts = append(parts, human.Count(s.LostLines, "line"))
	}
	if s.LostBytes > 0 {
		parts = append(parts, human.Size(int64(s.LostBytes)))
	}
	if parts == nil {
		return ""
	}
	return note(s.Name+": ", "lost: at least "+strings.Join(parts, " and "))
}

// passedNote is a line on what the source has read and made no record of; nothing without it.
func passedNote(s exporter.SourceStatus) string {
	if len(s.PassedOver) == 0 {
		return ""
	}
	return note(s.Name+": ", "passed over: "+human.Counts(s.PassedOver))
}

// auditNote is a line on the last run of an audit; nothing without one.
func auditNote(s exporter.SourceStatus, now time.Time) string {
	if s.LastRun == nil {
		return ""
	}
	verdict := "complete"
	if !s.LastRun.Complete {
		verdict = "not proven complete"
	}
	return note(s.Name+": ", fmt.Sprintf("last audit %s: %s (%s), %s", agoText(&s.LastRun.Time, now), verdict, s.LastRun.Reason, human.Count(s.LastRun.Violations, "violation")))
}

// agoText says how long ago t was; "-" for never.
func agoText(t *time.Time, now time.Time) string {
	if t == nil {
		return "-"
	}
	return human.Duration(now.Sub(*t)) + " ago"
}

// column is a part of a sink's account.
type column struct {
	title string
	of    func(exporter.SinkLedger) uint64
}

// columnsOf are the parts of the accounts that are shown: what waits and what was
// delivered always, anything else when a sink has some of it. A sink's stored
// records are the sum of its row, unless it was removed.
func columnsOf(l exporter.Ledger) []column {
	columns := []column{
		{"PENDING", func(s exporter.SinkLedger) uint64 { return s.Pending }},
		{"DELIVERED", func(s exporter.SinkLedger) uint64 { return s.Delivered }},
	}
	for _, c := range []column{
		{"FILTERED", func(s exporter.SinkLedger) uint64 { return s.Filtered }},
		{"DEAD-LETTERED", func(s exporter.SinkLedger) uint64 { return s.DeadLettered }},
		{"DROPPED", func(s exporter.SinkLedger) uint64 { return s.Dropped }},
		{"CORRUPT", func(s exporter.SinkLedger) uint64 { return s.Corrupt }},
	} {
		for _, s := range l.Sinks {
			if c.of(s) > 0 {
				columns = append(columns, c)
				break
			}
		}
	}
	return columns
}

func titles(columns []column) []string {
	titles := make([]string, len(columns))
	for i, c := range columns {
		titles[i] = c.title
	}
	return titles
}

// sinkNote says what is wrong with a sink or, once it works again, what was.
func sinkNote(s exporter.SinkStatus, now time.Time) string {
	if s.LastError == "" {
		return ""
	}
	var ago string
	if s.LastErrorTime != nil {
		ago = " " + human.Duration(now.Sub(*s.LastErrorTime)) + " ago"
	}
	if s.State == exporter.Active {
		return note(s.Name+": works again, last error"+ago+": ", s.LastError)
	}
	if s.NextAttempt != nil {
		ago += fmt.Sprintf(", attempt %d in %s", s.Attempts+1, human.Duration(s.NextAttempt.Sub(now)))
	}
	return note(s.Name+": "+s.Reason+ago+": ", s.LastError)
}

// transactionNote is a line on the transactions of a sink that has some.
func transactionNote(s exporter.SinkStatus) string {
	t := s.Transactions
	if t == nil {
		return ""
	}
	text := fmt.Sprintf("%s committed, %d aborted", human.Count(t.Committed, "transaction"), t.Aborted)
	if t.Fenced > 0 {
		text += ", fenced by another docket"
	}
	if t.Position > 0 {
		text += fmt.Sprintf("; the destination is at record %d", t.Position)
	}
	return note(s.Name+": ", text)
}

// note is text behind head; nothing without text.
func note(head, text string) string {
	if text == "" {
		return ""
	}
	return human.Wrap(head, text, "  ")
}

// queueText is a line on the queue, and more on what is wrong with it.
func queueText(q exporter.QueueStatus, now time.Time) string {
	kept := "nothing kept"
	if q.LastSeq >= q.FirstSeq && q.LastSeq > 0 {
		kept = fmt.Sprintf("records %d to %d kept", q.FirstSeq, q.LastSeq)
	}
	if q.RecordsPerSecond > 0 {
		kept += ", " + human.Rate(q.RecordsPerSecond)
	}
	if q.FullInSeconds != nil {
		kept += ", full in " + human.Duration(time.Duration(*q.FullInSeconds*float64(time.Second))) + " at this rate"
	}
	text := human.Wrap("queue   ", fmt.Sprintf("%s: %s of %s, %s",
		stateText(q.State, q.Since, now), human.Size(q.Bytes), human.Size(q.MaxBytes), kept), margin)
	if q.Reason != "" {
		text += human.Wrap(margin, q.Reason, margin)
	}
	return text
}

// ledgerText is the account of the lines, why some were refused, and what never
// came.
func ledgerText(l exporter.Ledger) string {
	var refused uint64
	for _, n := range l.Refused {
		refused += n
	}
	text := human.Wrap("ledger  ", fmt.Sprintf("received %d = stored %d + refused %d + duplicate %d",
		l.Received, l.Stored, refused, l.Duplicate), margin)
	if refused > 0 {
		text += human.Wrap(margin+"refused: ", human.Counts(l.Refused), margin)
	}
	if lost := human.Counts(l.Lost); lost != "" {
		text += human.Wrap(margin+"reported lost by producers: ", lost, margin)
	}
	return text
}

// metricsText speaks up only when metrics.address is not served.
func metricsText(m *exporter.MetricsStatus) string {
	if m == nil || m.State == exporter.Active {
		return ""
	}
	return human.Wrap(fmt.Sprintf("metrics %s: ", m.State), m.Reason, margin)
}

// configText speaks up only when the configuration file is not the one in force.
func configText(c exporter.ConfigStatus) string {
	if c.LastError == "" {
		return ""
	}
	return human.Wrap(fmt.Sprintf("config  %s: ", c.State), c.LastError, margin)
}

// stateText adds how long a state that is not the normal one has lasted.
func stateText(state exporter.State, since *time.Time, now time.Time) string {
	if state == exporter.Active || since == nil {
		return string(state)
	}
	return string(state) + " for " + human.Duration(now.Sub(*since))
}
