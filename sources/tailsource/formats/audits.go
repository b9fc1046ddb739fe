package formats

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/docket-export/docket/decision"
	"github.com/docket-export/docket/decision/rawjson"
)

const (
	// maxAudits bounds how many runs are counted at a time. Gatekeeper makes one after
	// the other; more than one is open only where it ended within a run.
	maxAudits = 4
	// maxConstraints bounds the constraints that are counted in a run.
	maxConstraints = 10000
	// maxName bounds what a constraint is called by; the names of Kubernetes are shorter.
	maxName = 1 << 10
	// sampledFrom is how many lines of one text Gatekeeper's logger writes in a second
	// before it leaves some out: from then on a total may be missing as well.
	sampledFrom = 100
)

// audits counts the violations of each run of an audit that a log shows, and compares
// them with Gatekeeper's own totals. It is part of what a source keeps: a run may begin
// before a restart and end after it.
type audits struct {
	Runs []*run `json:"runs,omitempty"` // in the order in which they began
}

type run struct {
	ID          string        `json:"id"`
	Started     bool          `json:"started,omitempty"`
	Violations  uint64        `json:"violations,omitempty"`
	Totals      int           `json:"totals,omitempty"` // lines of totals
	Constraints []*constraint `json:"constraints,omitempty"`
	Uncounted   uint64        `json:"uncounted,omitempty"` // lines whose constraint is not counted
	index       map[constraintID]*constraint
}

type constraintID struct {
	Group string `json:"group,omitempty"`
	Kind  string `json:"kind"`
	Name  string `json:"name"`
}

type constraint struct {
	constraintID
	Seen     uint64  `json:"seen,omitempty"`
	Reported *uint64 `json:"reported,omitempty"`
}

// clone is a copy that later lines do not change.
func (a *audits) clone() audits {
	c := audits{Runs: make([]*run, len(a.Runs))}
	for i, r := range a.Runs {
		own := *r
		own.index = nil
		own.Constraints = make([]*constraint, len(r.Constraints))
		for j, con := range r.Constraints {
			ownConstraint := *con
			own.Constraints[j] = &ownConstraint
		}
		c.Runs[i] = &own
	}
	return c
}

// observe takes a line about a run. For the last line of one it returns the record of
// the run; what that holds depends on the lines before, that there is one does not.
func (a *audits) observe(event string, text []byte) *decision.Run {
	switch event {
	case "audit_started", "violation_audited", "constraint_audited", "audit_finished":
	default:
		return nil
	}
	line := parseRunLine(text)
	id := line.id[:min(len(line.id), maxName)]
	switch event {
	case "audit_started":
		a.drop(id)
		a.get(id).Started = true
	case "violation_audited":
		r := a.get(id)
		r.Violations++
		if c := r.constraint(line.constraint); c != nil {
			c.Seen++
		}
	case "constraint_audited":
		r := a.get(id)
		r.Totals++
		total, err := strconv.ParseUint(line.total, 10, 64)
		if c := r.constraint(line.constraint); c != nil && err == nil {
			c.Reported = &total
		}
	case "audit_finished":
		r := a.get(id)
		a.drop(id)
		return r.record()
	}
	return nil
}

func (a *audits) get(id string) *run {
	for _, r := range a.Runs {
		if r.ID == id {
			return r
		}
	}
	if len(a.Runs) == maxAudits {
		a.Runs = slices.Delete(a.Runs, 0, 1)
	}
	r := &run{ID: strings.Clone(id)}
	a.Runs = append(a.Runs, r)
	return r
}

func (a *audits) drop(id string) {
	a.Runs = slices.DeleteFunc(a.Runs, func(r *run) bool { return r.ID == id })
}

// runLine is what a line says of a run.
type runLine struct {
	id         string
	constraint constraintID
	total      string
}

// parseRunLine reads a line that is JSON, in one pass: it is long, and what is wanted
// stands far apart.
func parseRunLine(text []byte) (line runLine) {
	for name, value := range rawjson.Members(text) {
		switch string(name) {
		case "audit_id":
			line.id = value.String()
		case "constraint_group":
			line.constraint.Group = value.String()
		case "constraint_kind":
			line.constraint.Kind = value.String()
		case "constraint_name":
			line.constraint.Name = value.String()
		case "constraint_violations":
			line.total = value.String()
		}
	}
	return line
}

// constraint is the constraint of that name; nil where it cannot be counted.
func (r *run) constraint(id constraintID) *constraint {
	if r.index == nil {
		r.index = make(map[constraintID]*constraint, len(r.Constraints))
		for _, c := range r.Constraints {
			r.index[c.constraintID] = c
		}
	}
	if c := r.index[id]; c != nil {
		return c
	}
	if len(r.Constraints) == maxConstraints || len(id.Group)+len(id.Kind)+len(id.Name) > maxName {
		r.Uncounted++
		return nil
	}
	c := &constraint{constraintID: id}
	r.index[id] = c
	r.Constraints = append(r.Constraints, c)
	return c
}

// record says what became of the run. It is complete when every violation that
// Gatekeeper has counted was in the log.
func (r *run) record() *decision.Run {
	rec := &decision.Run{EventType: decision.AuditRun, ID: r.ID, Violations: r.Violations}
	missing, extra, unknown := r.compare(rec)
	switch {
	case !r.Started:
		rec.Reason = decision.NoStart
		rec.Detail = "the log does not show how the audit began"
	case missing > 0:
		rec.Reason = decision.LinesLost
		rec.Detail = fmt.Sprintf("%d violations that the audit has counted are not in the log", missing)
	case unknown > 0 || r.Totals >= sampledFrom || r.Uncounted > 0:
		rec.Reason = decision.LinesLost
		rec.Detail = "some totals of the audit are not in the log: docket cannot tell whether all its violations are there"
	case extra > 0:
		rec.Reason = decision.Damaged
		rec.Detail = fmt.Sprintf("the log has %d more violations than the audit counted", extra)
	case r.Violations == 0:
		rec.Reason = decision.NoRecords
	default:
		rec.Complete, rec.Reason = true, decision.CountsAgree
	}
	return rec
}

// compare fills in the counts, and returns how many violations the log lacks, how many
// it has beyond Gatekeeper's totals, and how many constraints have no total.
func (r *run) compare(rec *decision.Run) (missing, extra uint64, unknown int) {
	slices.SortFunc(r.Constraints, func(a, b *constraint) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	var reported uint64
	for _, c := range r.Constraints {
		rec.Constraints = append(rec.Constraints, decision.RunConstraint{
			Group: c.Group, Kind: c.Kind, Name: c.Name, Violations: c.Seen, Reported: c.Reported,
		})
		if c.Reported == nil {
			unknown++
			continue
		}
		reported += *c.Reported
		missing += max(*c.Reported, c.Seen) - c.Seen
		extra += max(*c.Reported, c.Seen) - *c.Reported
	}
	if r.Totals > 0 {
		rec.Reported = &reported
	}
	return missing, extra, unknown
}

// encode gives the line of a record.
func encode(rec *decision.Run) []byte {
	line, err := json.Marshal(rec)
	if err != nil {
		panic(err) // text and numbers can always be written
	}
	return line
}
