package topcmd

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docket-export/docket/cli/internal/terminal"
	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/internal/human"
)

// picture is what is shown of a docket.
type picture struct {
	where  string
	live   bool             // on a screen, which has keys
	status *exporter.Status // the newest; nil: none yet
	lost   error            // why there is no newer one; nil: there is no reason
	heard  time.Time        // when the newest came, by our clock
	now    time.Time        // by our clock
}

// take shows a, which came at that time.
func (p *picture) take(a answer, at time.Time) {
	p.now, p.lost = at, a.err
	if a.err == nil {
		p.status, p.heard = &a.status, at
	}
}

// Ranks say which lines go first where not all fit: those of the greatest.
const (
	always = iota
	failed
	trouble
	why
	fine
	account
	more // of a text that takes several lines
	space
)

// maxNote is how many lines a text of another program gets.
const maxNote = 4

// paint returns the picture as lines of at most width columns and, unless height is 0, at
// most height of them. Width 0 is that of any text.
func (p *picture) paint(width, height int, colour bool) []string {
	lines := p.lines(width)
	if height > 0 {
		lines = shed(lines, height)
	}
	painted := make([]string, len(lines))
	for i, l := range lines {
		painted[i] = l.paint(width, colour)
	}
	return painted
}

// shed leaves lines out until at most height are left.
func shed(lines []line, height int) []line {
	for len(lines) > height {
		worst := len(lines) - 1
		for i, l := range slices.Backward(lines) {
			if l.rank > lines[worst].rank {
				worst = i
			}
		}
		lines = slices.Delete(lines, worst, worst+1)
	}
	// A heading says how many of its rows are shown.
	rows := map[string]int{}
	for _, l := range lines {
		rows[l.row]++
	}
	for i, l := range lines {
		if n := rows[l.heads]; l.heads != "" && n < l.of {
			lines[i].spans[0].text = fitted(fmt.Sprintf("%s %d/%d", l.heads, n, l.of), terminal.Cells(l.spans[0].text), false)
		}
	}
	return lines
}

func (p *picture) lines(width int) []line {
	head := line{spans: []span{{strong, "docket"}, {faint, "  " + terminal.Visible(p.where)}}}
	switch {
	case p.status == nil && p.lost == nil:
		return []line{head, {spans: []span{{faint, "asking"}}}}
	case p.status == nil:
		return append([]line{head}, noteLines("", p.lost.Error(), width, bad, always)...)
	}
	s := *p.status
	clock := s.Time
	if clock.IsZero() {
		clock = p.heard
	}
	head.spans = append(head.spans, span{faint, "  " + clock.Local().Format(time.TimeOnly)})
	all := []line{head}
	if p.lost != nil {
		all = append(all, line{spans: []span{{bad, "Connection lost " + human.Duration(p.now.Sub(p.heard)) + " ago: "}, {plain, terminal.Visible(p.lost.Error())}}})
	} else {
		all = append(all, verdict(s))
	}
	blank := line{rank: space}
	all = append(all, blank)
	all = append(all, sourceTable(s, clock).lines(width)...)
	all = append(all, blank)
	all = append(all, queueLines(s.Queue, width)...)
	all = append(all, blank)
	all = append(all, sinkTable(s, clock).lines(width)...)
	all = append(all, blank)
	all = append(all, ledgerLines(s.Ledger)...)
	all = append(all, configLines(s.Config, width)...)
	if p.live {
		all = append(all, line{rank: space, spans: []span{{faint, "q quits"}}})
	}
	return all
}

// verdict says which parts need an operator, and which are worth a look.
func verdict(s exporter.Status) line {
	var errors, warnings []string
	add := func(state exporter.State, who string) {
		switch state {
		case exporter.Active:
		case exporter.Error:
			errors = append(errors, who)
		default:
			warnings = append(warnings, who)
		}
	}
	if unbalanced(s.Ledger) {
		add(exporter.Error, "ledger")
	}
	queue := s.Queue.State
	if queue == exporter.Active && fillsSoon(s.Queue) {
		queue = exporter.Degraded
	}
	add(queue, "queue")
	for _, x := range s.Sources {
		add(x.State, "source "+x.Name)
		if x.LastRun != nil && !x.LastRun.Complete && x.State == exporter.Active {
			add(exporter.Degraded, "audit of "+x.Name)
		}
	}
	for _, x := range s.Sinks {
		state := x.State
		if state == exporter.Active && x.DeadLetters > 0 {
			state = exporter.Degraded
		}
		add(state, "sink "+x.Name)
	}
	add(s.Config.State, "configuration")
	l := line{}
	if len(errors) > 0 {
		l.spans = append(l.spans, span{bad, "Needs an operator: " + strings.Join(errors, ", ") + "  "})
	}
	if len(warnings) > 0 {
		l.spans = append(l.spans, span{warn, "Look at: " + strings.Join(warnings, ", ")})
	}
	if l.spans == nil {
		l.spans = []span{{good, "All well"}}
	}
	return l
}

// fillsSoon is whether a forecast is news: when it is of this hour or, in a queue that is not
// nearly empty, of this day. A burst alone would make it come and go.
func fillsSoon(q exporter.QueueStatus) bool {
	const hour, day = 3600, 86400
	return q.FullInSeconds != nil && (*q.FullInSeconds < hour || *q.FullInSeconds < day && q.Bytes >= q.MaxBytes/10)
}

func unbalanced(l exporter.Ledger) bool {
	if l.Received != l.Stored+refused(l)+l.Duplicate {
		return true
	}
	for _, a := range l.Sinks {
		if l.Stored != a.Delivered+a.Filtered+a.DeadLettered+a.Dropped+a.Corrupt+a.Pending {
			return true
		}
	}
	return false
}

func refused(l exporter.Ledger) (sum uint64) {
	for _, n := range l.Refused {
		sum += n
	}
	return sum
}

func sourceTable(s exporter.Status, now time.Time) table {
	t := table{title: "SOURCE", columns: []column{{title: "STATE"}, {title: "RECORDS/S", right: true}, {title: "RECEIVED", right: true}, {title: "LAST", right: true}, {title: "CONN", right: true}}}
	for _, x := range s.Sources {
		last := "-"
		if x.LastRecord != nil {
			last = human.Duration(now.Sub(*x.LastRecord))
		}
		r := row{name: x.Name, state: x.State, cells: []string{rate(x.RecordsPerSecond), short(x.Records), last, strconv.Itoa(x.Connections)}, note: x.Reason}
		if run := x.LastRun; run != nil && !run.Complete && r.note == "" {
			r.note = fmt.Sprintf("the last audit run is not complete: %s", run.Reason)
		}
		t.rows = append(t.rows, r)
	}
	return t
}

func sinkTable(s exporter.Status, now time.Time) table {
	t := table{title: "SINK", columns: []column{{title: "STATE"}, {title: "RECORDS/S", right: true}, {title: "WAITING", right: true}, {title: "LAG", right: true}, {title: "DEAD", right: true}, {title: "NEXT TRY", right: true}}}
	for _, x := range s.Sinks {
		next := "-"
		if x.NextAttempt != nil && x.NextAttempt.After(now) {
			next = human.Duration(x.NextAttempt.Sub(now))
		}
		r := row{name: x.Name, state: x.State, cells: []string{rate(x.RecordsPerSecond), short(x.Pending), human.Lag(x.LagSeconds), strconv.Itoa(x.DeadLetters), next}}
		if x.State != exporter.Active {
			r.note = x.Reason
			if x.Since != nil {
				r.note += " for " + human.Duration(now.Sub(*x.Since))
			}
			if x.Attempts > 0 {
				r.note += ", " + human.Count(uint64(x.Attempts), "attempt")
			}
			if x.LastError != "" {
				r.note += ": " + x.LastError
			}
		}
		t.rows = append(t.rows, r)
	}
	return t
}

// queueLines show how full the queue is, and when it will be.
func queueLines(q exporter.QueueStatus, width int) []line {
	part := 0.0
	if q.MaxBytes > 0 {
		part = min(1, float64(q.Bytes)/float64(q.MaxBytes))
	}
	style := styleOf(q.State)
	if style == good && fillsSoon(q) {
		style = warn
	}
	head := []span{{faint, "QUEUE  "}, {styleOf(q.State), string(q.State) + "  "}}
	rest := []span{{style, fmt.Sprintf("%.0f%%", 100*part)}}
	if q.FullInSeconds != nil {
		left := time.Duration(min(*q.FullInSeconds, 1e9) * float64(time.Second))
		rest = append(rest, span{style, ", full in " + human.Duration(left) + " at this rate"})
	}
	rest = append(rest, span{plain, fmt.Sprintf(", %s of %s, %s/s", human.Size(q.Bytes), human.Size(q.MaxBytes), rate(q.RecordsPerSecond))})
	l := line{spans: slices.Concat(head, []span{{style, bar(part) + " "}}, rest)}
	if width > 0 && l.columns() > width {
		l.spans = slices.Concat(head, rest)
	}
	return append([]line{l}, noteLines("  ", q.Reason, width, plain, trouble)...)
}

// bar shows a part, from 0 to 1.
func bar(part float64) string {
	const wide = 20
	full := int(part * wide)
	return "[" + strings.Repeat("=", full) + strings.Repeat(" ", wide-full) + "]"
}

func ledgerLines(l exporter.Ledger) []line {
	text := fmt.Sprintf("received %d = stored %d + refused %d + duplicate %d", l.Received, l.Stored, refused(l), l.Duplicate)
	style := plain
	if unbalanced(l) {
		style, text = bad, text+", and the books do not balance: run docket status"
	}
	lines := []line{{rank: account, spans: []span{{faint, "LEDGER "}, {style, text}}}}
	var apart []string
	for _, part := range []struct {
		name   string
		counts map[string]uint64
	}{{"refused: ", l.Refused}, {"lost by producers: ", l.Lost}, {"", sinkLosses(l)}} {
		if text := human.Counts(part.counts); text != "" {
			apart = append(apart, part.name+text)
		}
	}
	if len(apart) > 0 {
		lines = append(lines, line{rank: account, spans: []span{{plain, "       " + strings.Join(apart, "; ")}}})
	}
	return lines
}

// sinkLosses are the records that sinks have not got and will not get.
func sinkLosses(l exporter.Ledger) map[string]uint64 {
	losses := map[string]uint64{}
	for _, name := range slices.Sorted(maps.Keys(l.Sinks)) {
		a := l.Sinks[name]
		losses[name+" dropped"], losses[name+" dead-lettered"], losses[name+" corrupt"] = a.Dropped, a.DeadLettered, a.Corrupt
	}
	return losses
}

// configLines speak up only when the configuration file is not the one in force.
func configLines(c exporter.ConfigStatus, width int) []line {
	if c.State == exporter.Active {
		return nil
	}
	lines := []line{{spans: []span{{faint, "CONFIG "}, {styleOf(c.State), string(c.State)}, {plain, "  " + terminal.Visible(c.File)}}}}
	return append(lines, noteLines("  ", c.LastError, width, plain, trouble)...)
}

// rate is n a second, as exact as it matters.
func rate(n float64) string {
	if n > 0 && n < 10 {
		return strconv.FormatFloat(max(n, 0.1), 'f', 1, 64)
	}
	return short(uint64(n + 0.5))
}

// short is n in at most six characters.
func short(n uint64) string {
	if n < 1e5 {
		return strconv.FormatUint(n, 10)
	}
	value, unit := float64(n)/1e3, 0
	for value >= 1e3 && unit < 5 {
		value, unit = value/1e3, unit+1
	}
	digits := 1
	if value >= 100 {
		digits = 0
	}
	return strconv.FormatFloat(value, 'f', digits, 64) + string("kMGTPE"[unit])
}
