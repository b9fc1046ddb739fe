package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/docket-export/docket/exporter"
)

// writeStatus shows s as text for a person.
func writeStatus(w io.Writer, s exporter.Status, now time.Time) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "SINK\tSTATE\tREASON\tPENDING\tDELIVERED\tLAG\tLAST ERROR")
	for _, sink := range s.Sinks {
		account := s.Ledger.Sinks[sink.Name]
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%d\t%s\t%s\n",
			sink.Name, stateText(sink.State, sink.Since, now), orDash(sink.Reason),
			account.Pending, account.Delivered, lagText(sink.LagSeconds), orDash(oneLine(sink.LastError)))
	}
	fmt.Fprintln(t)
	fmt.Fprintln(t, "SOURCE\tSTATE\tREASON\tCONNECTIONS")
	for _, source := range s.Sources {
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\n", source.Name, source.State, orDash(oneLine(source.Reason)), source.Connections)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s%s%s", queueText(s.Queue), ledgerText(s.Ledger), configText(s.Config))
	return err
}

// queueText is one line on the queue.
func queueText(q exporter.QueueStatus) string {
	kept := "nothing kept"
	if q.LastSeq >= q.FirstSeq && q.LastSeq > 0 {
		kept = fmt.Sprintf("records %d to %d kept", q.FirstSeq, q.LastSeq)
	}
	state := string(q.State)
	if q.Reason != "" {
		state += " (" + oneLine(q.Reason) + ")"
	}
	return fmt.Sprintf("queue   %s: %s of %s, %s\n", state, sizeText(q.Bytes), sizeText(q.MaxBytes), kept)
}

// ledgerText is the account of the lines, and a line for each sink that holds
// records which were neither delivered nor wait.
func ledgerText(l exporter.Ledger) string {
	var refused uint64
	for _, n := range l.Refused {
		refused += n
	}
	var b strings.Builder
	fmt.Fprintf(&b, "ledger  received %d = stored %d + refused %d + duplicate %d%s\n",
		l.Received, l.Stored, refused, l.Duplicate, reasonsText(l.Refused))
	for _, name := range slices.Sorted(maps.Keys(l.Sinks)) {
		s := l.Sinks[name]
		if s.Filtered+s.DeadLettered+s.Dropped+s.Corrupt > 0 {
			fmt.Fprintf(&b, "        %s: filtered %d, dead-lettered %d, dropped %d, corrupt %d\n",
				name, s.Filtered, s.DeadLettered, s.Dropped, s.Corrupt)
		}
	}
	return b.String()
}

// reasonsText lists why lines were refused: " (InvalidJSON 2, TooLarge 1)".
func reasonsText(refused map[string]uint64) string {
	var parts []string
	for _, reason := range slices.Sorted(maps.Keys(refused)) {
		if n := refused[reason]; n > 0 {
			parts = append(parts, reason+" "+strconv.FormatUint(n, 10))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// configText speaks up only when the configuration file is not the one in force.
func configText(c exporter.ConfigStatus) string {
	if c.LastError == "" {
		return ""
	}
	return fmt.Sprintf("config  %s: %s\n", c.State, oneLine(c.LastError))
}

// stateText adds how long a state that is not the normal one has lasted.
func stateText(state exporter.State, since *time.Time, now time.Time) string {
	if state == exporter.Active || since == nil {
		return string(state)
	}
	return fmt.Sprintf("%s for %s", state, now.Sub(*since).Round(time.Second))
}

// lagText is the age of the oldest pending record, as exact as it matters.
func lagText(seconds float64) string {
	if seconds == 0 {
		return "-"
	}
	lag := time.Duration(seconds * float64(time.Second))
	if lag >= time.Minute {
		return lag.Round(time.Second).String()
	}
	return lag.Round(100 * time.Millisecond).String()
}

// sizeText is n bytes for a person, with one decimal.
func sizeText(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	value, unit := float64(n), 0
	for value >= 1024 && unit < len(units)-1 {
		value, unit = value/1024, unit+1
	}
	return strings.TrimSuffix(strconv.FormatFloat(value, 'f', 1, 64), ".0") + " " + units[unit]
}

func orDash(s string) string { return cmp.Or(s, "-") }

// oneLine keeps a text of another program from breaking the table, or from
// reaching the terminal as control characters.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if !strconv.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
}
