package webhook

import (
	"context"
	"slices"
	"sync"

	"github.com/docket-export/docket/client"
	"github.com/docket-export/docket/decision"
)

// Found is for a handler that knows its violations, behind a Log with Options.Found. The review
// that ctx belongs to leaves records, and no record that Log makes from its message. Fill in the
// policy and its decision: group, version, kind, name, namespace, template, enforcement actions,
// annotations of the constraint, decision, failure, message and details. Fill in the labels and the
// UID of the resource too, and the event type if it is not AdmissionReview. Log fills in everything
// else, from the review and its answer. Where the API server gets no answer that it can use, each
// record becomes one of decision error, and failure has the reason.
//
// Decisions count as they are, DryRun among them. Records whose decision Options.Decisions does not
// name are left out. If all records of a review are left out, the review is recorded as if nothing
// was found. The others are numbered from first to last at once, so that the answer can name them,
// and each has its number in Sequence. The numbers of records that are lost later stay a gap.
// Records must not be changed after the call.
//
// Found may be called more than once for a review, until its answer is complete. It returns 0, 0
// and does nothing after the answer, or if ctx does not belong to a review that such a Log records.
func Found(ctx context.Context, records ...*decision.Record) (first, last uint64) {
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	if x == nil {
		return 0, 0
	}
	wanted := make([]*decision.Record, 0, len(records))
	for _, r := range records {
		if slices.Contains(x.h.Decisions, r.Decision) {
			wanted = append(wanted, r)
		}
	}
	return x.found.add(x, wanted)
}

// exchangeKey is that of the exchange in the context of its request.
type exchangeKey struct{}

// found are the violations that the handler has named.
type found struct {
	mu      sync.Mutex // the handler may go on where nobody waits for it, as behind http.TimeoutHandler
	records []*decision.Record
	kept    int // memory that is counted
}

func (f *found) add(x *exchange, records []*decision.Record) (first, last uint64) {
	const own = 1 << 10 // of a record: names, its actions, and its part of what all share
	f.mu.Lock()
	defer f.mu.Unlock()
	n := uint64(len(records))
	if n == 0 || x.over.Load() {
		return 0, 0
	}
	first = x.h.client.NextSequences(len(records))
	size := 0
	for i, r := range records {
		r.Sequence = first + uint64(i)
		size += own + len(r.Message) + len(r.Details)
	}
	f.records = append(f.records, records...)
	if x.h.memory.grow(size) {
		f.kept += size
	} else {
		x.lose()
	}
	return first, first + n - 1
}

func (f *found) list() []*decision.Record {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.records
}

func (f *found) size() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.kept
}

// complete returns the records with what r, the record of the whole review, tells of it.
// Its contents, warnings and audit annotations are in the first.
func (f *found) complete(r *decision.Record) []*decision.Record {
	records := slices.Clone(f.list())
	for i, v := range records {
		one := *r
		if i > 0 {
			one.Object, one.OldObject, one.Patch, one.AuditAnnotations, one.Warnings = nil, nil, nil, nil, nil
		}
		one.Group, one.Version, one.Kind, one.Name, one.Namespace = v.Group, v.Version, v.Kind, v.Name, v.Namespace
		one.Template, one.EnforcementAction, one.EnforcementActions = v.Template, v.EnforcementAction, v.EnforcementActions
		one.ConstraintAnnotations, one.ResourceLabels, one.ResourceUID = v.ConstraintAnnotations, v.ResourceLabels, v.ResourceUID
		one.Message, one.Details, one.Sequence = v.Message, v.Details, v.Sequence
		if v.EventType != "" {
			one.EventType = v.EventType
		}
		if r.Decision != decision.Error {
			one.Decision, one.Failure = v.Decision, v.Failure
		}
		records[i] = &one
	}
	return records
}

// countLost counts what x should have recorded.
func (x *exchange) countLost() {
	records := x.found.list()
	if len(records) == 0 {
		x.h.client.Lose(client.Unspecified, 1)
	}
	for _, r := range records {
		x.h.client.Lose(r.Decision, 1)
	}
}
