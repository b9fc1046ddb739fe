package conformance

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/docket-export/docket/client/clienttest"
)

// maxAlike bounds how many faults of one kind are listed.
const maxAlike = 3

// judge returns everything that the producer did wrong.
func (t *trial) judge() []Fault {
	faults := t.judgeEnd()
	faults = append(faults, t.judgeRecords()...)
	faults = append(faults, t.judgeRefused()...)
	faults = append(faults, t.judgeTurnedAway()...)
	var broken []Fault
	for _, v := range t.Violations() {
		broken = append(broken, Fault{"to keep to the protocol", v.Error()})
	}
	return append(faults, few(broken)...)
}

// judgeEnd is about how and when the producer ended.
func (t *trial) judgeEnd() []Fault {
	progress := fmt.Sprintf("%d of %d records had arrived, %d of %d lines were acknowledged, over %s",
		t.atEnd.arrived(), t.records, t.atEnd.told, t.atEnd.decided(), plural(t.atEnd.connections, "connection"))
	switch {
	case errors.Is(t.err, errTimeout):
		return []Fault{{fmt.Sprintf("to end within %s", t.timeout), "it was still at work: " + progress}}
	case errors.Is(t.err, errAbandoned):
		return []Fault{{"to end when it is told to", errAbandoned.Error() + ": " + progress}}
	case t.err != nil:
		return []Fault{{"to end with success", fmt.Sprintf("it ended with %q: %s", t.err, progress)}}
	case t.atEnd.arrived() < t.records && t.last.arrived() < t.records:
		return []Fault{{fmt.Sprintf("to send %d different records", t.records), "it ended with success: " + progress}}
	case !t.atEnd.complete(t.records):
		return []Fault{{"to end only when all is acknowledged", "it ended with success: " + progress}}
	}
	return nil
}

// judgeRecords is about what was stored.
func (t *trial) judgeRecords() []Fault {
	var faults, twice []Fault
	if n := t.last.arrived(); n > t.records {
		faults = append(faults, Fault{fmt.Sprintf("to send %d records", t.records), fmt.Sprintf("%d different ones arrived", n)})
	}
	if slices.ContainsFunc(t.last.lines, func(l clienttest.Line) bool { return l.Producer == "" }) {
		faults = append(faults, Fault{"to begin each connection with a hello", "lines came in plain mode, in which nothing is acknowledged"})
	}
	first := make(map[string]clienttest.Line, len(t.last.lines))
	for _, l := range t.last.lines {
		if before, ok := first[l.Text]; ok {
			twice = append(twice, Fault{"to send each record once, and again only under the same number", fmt.Sprintf("%s was stored twice: as %s and as %s", excerpt(l.Text), place(before), place(l))})
			continue
		}
		first[l.Text] = l
	}
	return append(faults, few(twice)...)
}

// judgeRefused is about what became of lines that were refused.
func (t *trial) judgeRefused() []Fault {
	var faults []Fault
	refused := texts(t.last.refused)
	for _, text := range slices.Sorted(maps.Keys(refused)) {
		if refused[text] > 1 {
			faults = append(faults, Fault{"not to send a refused line again", fmt.Sprintf("%s came again under another number", excerpt(text))})
		}
	}
	return few(faults)
}

// judgeTurnedAway is about lines for which there was no room.
func (t *trial) judgeTurnedAway() []Fault {
	offered := make(map[string]clienttest.Line)
	for _, l := range t.last.turnedAway {
		if _, ok := offered[l.Text]; !ok {
			offered[l.Text] = l
		}
	}
	var faults []Fault
	for _, l := range slices.Concat(t.last.lines, t.last.refused) {
		before, ok := offered[l.Text]
		delete(offered, l.Text)
		if ok && (before.Producer != l.Producer || before.Number != l.Number) {
			faults = append(faults, Fault{"to send a line refused as QueueFull again under the same name and number", fmt.Sprintf("%s was %s and came again as %s", excerpt(l.Text), place(before), place(l))})
		}
	}
	if len(offered) > 0 {
		faults = append(faults, Fault{"to send lines refused as QueueFull again, over another connection", fmt.Sprintf("%s did not come again", plural(len(offered), "line"))})
	}
	return few(faults)
}

// few cuts a list of faults that are alike.
func few(faults []Fault) []Fault {
	if len(faults) <= maxAlike {
		return faults
	}
	more := len(faults) - maxAlike
	faults = slices.Clone(faults[:maxAlike])
	faults[maxAlike-1].Got += fmt.Sprintf("; and %d more of this kind", more)
	return faults
}

func place(l clienttest.Line) string {
	if l.Producer == "" {
		return "a line of plain mode"
	}
	return fmt.Sprintf("line %d of producer %s", l.Number, l.Producer)
}

// excerpt is as much of a line as a person needs to know it again.
func excerpt(text string) string {
	const enough = 80
	if len(text) > enough {
		return text[:enough] + "..."
	}
	return text
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}
