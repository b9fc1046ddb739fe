package audit

import (
	"fmt"
	"slices"
	"strings"

	"github.com/docket-export/docket/decision"
	"github.com/docket-export/docket/webhook/engine/policy"
)

const (
	// maxFaults and maxFaultText bound what a run says of itself. Who reads of sixteen
	// things that are wrong has enough to do.
	maxFaults    = 16
	maxFaultText = 512
)

// precedence is that of reasons: a run record has one.
var precedence = []decision.RunReason{
	decision.Abandoned, decision.LinesLost, decision.NotListed, decision.PolicyFailed, decision.PolicyChanged,
}

// faults are what keeps a run from being complete.
type faults struct {
	list []fault
	more int // that are not listed
	// reasons has those of all faults, listed or not.
	reasons []decision.RunReason
}

type fault struct {
	reason        decision.RunReason
	subject, text string
	n             int
}

// add adds a fault. Those of one reason and subject are counted behind the first; an
// empty subject is like no other.
func (f *faults) add(reason decision.RunReason, subject, format string, args ...any) {
	for i := range f.list {
		if l := &f.list[i]; subject != "" && l.reason == reason && l.subject == subject {
			l.n++
			return
		}
	}
	if !slices.Contains(f.reasons, reason) {
		f.reasons = append(f.reasons, reason)
	}
	if len(f.list) == maxFaults {
		f.more++
		return
	}
	text := fmt.Sprintf(format, args...)
	if len(text) > maxFaultText {
		text = strings.ToValidUTF8(text[:maxFaultText], "") + "..."
	}
	f.list = append(f.list, fault{reason, subject, text, 1})
}

// policies adds those that are in Error, and those that were not the same throughout: what
// was reviewed before such a change would have got another verdict after it.
func (f *faults) policies(before, after []policy.State) {
	states := map[policy.ID][]policy.State{}
	all := slices.Concat(before, after)
	for _, s := range all {
		states[s.ID] = append(states[s.ID], s)
	}
	for _, s := range all {
		both := states[s.ID]
		delete(states, s.ID)
		if i := slices.IndexFunc(both, func(s policy.State) bool { return s.Phase == policy.Error }); i >= 0 {
			f.add(decision.PolicyFailed, "", "%s is in Error: %s: %s", s.ID, both[i].Reason, both[i].Message)
		}
		if len(both) == 1 || len(both) == 2 && changed(both[0], both[1]) {
			f.add(decision.PolicyChanged, "", "%s was changed while the run was under way", s.ID)
		}
	}
}

// changed reports whether a policy was enforced otherwise at one of two times, or between them.
func changed(a, b policy.State) bool {
	between := a.Phase == b.Phase && a.Observed == b.Observed && !a.Since.Equal(b.Since)
	return a.UID != b.UID || a.Enforced != b.Enforced || between
}

// verdict is what the run's record says.
func (f *faults) verdict() (decision.RunReason, string) {
	for _, reason := range precedence {
		if slices.Contains(f.reasons, reason) {
			return reason, f.detail()
		}
	}
	return decision.AllReviewed, ""
}

// detail tells the faults, those of the first reason first.
func (f *faults) detail() string {
	slices.SortStableFunc(f.list, func(a, b fault) int {
		return slices.Index(precedence, a.reason) - slices.Index(precedence, b.reason)
	})
	var texts []string
	for _, l := range f.list {
		if l.n > 1 {
			l.text += fmt.Sprintf(" (%d times)", l.n)
		}
		texts = append(texts, l.text)
	}
	if f.more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", f.more))
	}
	return strings.Join(texts, "; ")
}
