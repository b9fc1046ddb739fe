package runs

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/docket-export/docket/decision"
	"github.com/docket-export/docket/sources"
)

// What Gatekeeper writes at the start and the end of an audit.
const (
	startMessage = "audit is started"
	endMessage   = "audit is completed"
	violation    = "violation_audited"
)

const (
	// maxConstraints bounds those that a run counts one by one. A cluster has some dozens.
	maxConstraints = 2048
	// maxConstraintName bounds what is held of each. Kubernetes has none half as long.
	maxConstraintName = 1 << 10
)

// tally counts the lines of one run's file.
type tally struct {
	id         string
	run        []byte // the same
	lines      uint64 // seen so far
	invalid    uint64
	violations uint64
	started    bool
	ended      bool // an end was read
	after      bool // and something after it

	constraints map[string]*decision.RunConstraint
	redaction   sources.Redaction // what is left out of what constraints are called; nil: nothing
	key         []byte            // scratch
	uncounted   uint64            // violations of constraints beyond those bounds
	torn        int64             // bytes of a last line that was cut off and not sent
}

func newTally(id string, redaction sources.Redaction) *tally {
	return &tally{id: id, run: []byte(id), redaction: redaction, constraints: make(map[string]*decision.RunConstraint)}
}

// add counts one line, and reports whether it is a violation of the run.
func (t *tally) add(text []byte) bool {
	t.lines++
	t.after = t.after || t.ended
	var e entry
	if isRecord(text) {
		e = entryOf(text)
	}
	switch {
	case !bytes.Equal(e.id.Text(), t.run):
		t.invalid++
	case len(e.kind) > len(`""`) && len(e.name) > len(`""`) && string(e.eventType.Text()) == violation:
		t.violations++
		t.countLine(text, e)
		return true
	case e.eventType == nil && string(e.message.Text()) == startMessage && t.lines == 1:
		t.started = true
	case e.eventType == nil && string(e.message.Text()) == endMessage && !t.ended:
		t.ended = true
	default:
		t.invalid++
	}
	return false
}

// tooLong counts a line that is no record for its length.
func (t *tally) tooLong() {
	t.lines++
	t.after = t.after || t.ended
	t.invalid++
}

// tear notes a last line that is left out, as it was cut off.
func (t *tally) tear(length int64) {
	t.after = t.after || t.ended
	t.torn = length
}

// countLine counts the violation e of a line under what redaction leaves of its constraint:
// the run record lists them.
func (t *tally) countLine(text []byte, e entry) {
	if t.redaction == nil {
		t.count(e)
		return
	}
	clean, err := t.redaction.Append(nil, text)
	if err != nil {
		t.uncounted++
		return
	}
	t.count(entryOf(clean))
}

func (t *tally) count(e entry) {
	t.key = append(append(append(append(append(t.key[:0], e.group...), 0), e.kind...), 0), e.name...)
	c := t.constraints[string(t.key)]
	if c == nil {
		if len(t.constraints) >= maxConstraints || len(t.key) > maxConstraintName {
			t.uncounted++
			return
		}
		c = &decision.RunConstraint{Group: e.group.String(), Kind: e.kind.String(), Name: e.name.String()}
		t.constraints[string(t.key)] = c
	}
	c.Violations++
}

// reason says whether the run is complete, and why or why not. unfinished says that the
// file had not got its last name from Gatekeeper, which comes behind the run's end.
func (t *tally) reason(unfinished bool) decision.RunReason {
	switch {
	case unfinished && !t.ended:
		return decision.Abandoned
	case t.invalid > 0 || t.after:
		return decision.Damaged
	case !t.started:
		return decision.NoStart
	case !t.ended:
		return decision.NoEnd
	case t.violations == 0:
		return decision.NoRecords
	}
	return decision.StartToEnd
}

// record makes the run record. What it says depends on the file alone, and on how many
// violations the last complete run had.
func (t *tally) record(reason decision.RunReason, file string, previous *uint64) decision.Run {
	run := decision.Run{
		EventType: decision.AuditRun, ID: t.id, File: file,
		Complete: reason == decision.StartToEnd, Reason: reason,
		Violations: t.violations, Invalid: t.invalid, Previous: previous,
	}
	for _, c := range t.constraints {
		run.Constraints = append(run.Constraints, *c)
	}
	slices.SortFunc(run.Constraints, func(a, b decision.RunConstraint) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	run.Detail = t.detail(reason, previous)
	return run
}

func (t *tally) detail(reason decision.RunReason, previous *uint64) string {
	var said []string
	say := func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }
	switch reason {
	case decision.NoRecords:
		if previous != nil && *previous > 0 {
			say("the last complete run had %d violations: either all are gone, or this audit has failed; see Gatekeeper's log", *previous)
		} else {
			say("either there are no violations, or this audit has failed; see Gatekeeper's log")
		}
	case decision.Damaged, decision.Abandoned:
		if !t.started {
			say("the record of the start is missing")
		}
		if !t.ended {
			say("the record of the end is missing")
		}
		if t.after {
			say("there are lines after the end")
		}
	}
	if t.torn > 0 {
		say("the last line is cut off: its %d bytes are left out", t.torn)
	}
	if t.uncounted > 0 {
		say("%d violations belong to constraints that are not listed", t.uncounted)
	}
	return strings.Join(said, "; ")
}

// encode makes a line of a record. A run's list of constraints is left out where it
// would make the record longer than a record may be.
func encode(record any, limit int) ([]byte, error) {
	text, err := json.Marshal(record)
	if run, ok := record.(decision.Run); ok && err == nil && len(text) > limit {
		run.Constraints = nil
		run.Detail = strings.TrimPrefix(run.Detail+"; there are too many constraints to list", "; ")
		text, err = json.Marshal(run)
	}
	return text, err
}
