package audit

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/docket-export/docket/client"
	"github.com/docket-export/docket/decision"
	"github.com/docket-export/docket/webhook/engine/lease"
	"github.com/docket-export/docket/webhook/engine/policy"
)

const (
	// maxPending and maxPendingBytes are how much is stored together: enough for the wait
	// for the disk to vanish beside the reviews.
	maxPending      = 256
	maxPendingBytes = 1 << 20
	// storeTimeout is how long a run waits for docket, which restarts within seconds.
	storeTimeout = time.Minute
	// endTimeout is how long it does so once its context is done. The run must have ended
	// when another pod may have the Lease.
	endTimeout = lease.Grace - time.Second
	// maxRunBytes is half of what a record may have by default. A longer run record is
	// stored without its constraints.
	maxRunBytes = 512 << 10
)

type constraint struct{ group, kind, name string }

// pending is a record that is to be stored.
type pending struct {
	client.Line
	constraint *decision.RunConstraint
}

// violation makes the record of a violation of o.
func (r *run) violation(v *policy.Violation, o *unstructured.Unstructured) error {
	rec, gvk := v.Record(), o.GroupVersionKind()
	rec.ID, rec.AuditID = r.report.ID, r.report.ID
	rec.SchemaVersion, rec.EventType, rec.Process = decision.SchemaVersion, decision.ViolationAudited, decision.Audit
	rec.ResourceGroup, rec.ResourceAPIVersion, rec.ResourceKind = gvk.Group, gvk.Version, gvk.Kind
	rec.ResourceNamespace, rec.ResourceName = o.GetNamespace(), cmp.Or(o.GetName(), o.GetGenerateName())
	rec.ResourceLabels, rec.ResourceUID = o.GetLabels(), string(o.GetUID())
	rec.Cluster, rec.Pod = r.Cluster, r.Pod
	rec.Timestamp, rec.Sequence = time.Now().UTC(), r.Client.NextSequence()
	r.found++
	r.report.Decisions[rec.Decision]++
	key := constraint{rec.Group, rec.Kind, rec.Name}
	c := r.constraints[key]
	if c == nil {
		c = &decision.RunConstraint{Group: key.group, Kind: key.kind, Name: key.name, Reported: new(uint64)}
		r.constraints[key] = c
	}
	*c.Reported++
	if r.Found != nil {
		r.Found(rec)
	}
	text, err := rec.AppendLine(nil)
	if err != nil {
		r.lost(c, err)
		return nil
	}
	r.pending = append(r.pending, pending{client.Line{Text: bytes.TrimSuffix(text, []byte("\n")), Decision: rec.Decision}, c})
	if r.bytes += len(text); len(r.pending) < maxPending && r.bytes < maxPendingBytes {
		return nil
	}
	return r.store()
}

// lost notes that a record is not stored, and will not be.
func (r *run) lost(c *decision.RunConstraint, err error) {
	r.faults.add(decision.LinesLost, c.Kind+"/"+c.Name, "a violation of %s %s was not stored: %v", c.Kind, c.Name, err)
}

// store stores what is pending. Records that docket refuses are lost; an error says that it
// does not answer.
func (r *run) store() error {
	ctx, cancel := context.WithTimeout(r.end, storeTimeout)
	defer cancel()
	lines := make([]client.Line, len(r.pending))
	for i, p := range r.pending {
		lines[i] = p.Line
	}
	var silent error
	for i, err := range r.Client.LogLines(ctx, lines) {
		switch c := r.pending[i].constraint; {
		case err == nil:
			c.Violations++
			r.report.Violations++
		case ctx.Err() != nil || errors.Is(err, client.ErrClosed):
			silent = notStored(err)
		default:
			r.lost(c, err)
		}
	}
	clear(r.pending)
	r.pending, r.bytes = r.pending[:0], 0
	return silent
}

// storeRun stores the record of the run.
func (r *run) storeRun() error {
	ctx, cancel := context.WithTimeout(r.end, storeTimeout)
	defer cancel()
	text, err := json.Marshal(r.report.Run)
	if err == nil && len(text) > maxRunBytes {
		short := r.report.Run
		short.Constraints = nil
		text, err = json.Marshal(short)
	}
	if err == nil {
		err = r.Client.LogLine(ctx, text, client.Unspecified)
	}
	if err != nil {
		return notStored(err)
	}
	return nil
}

// later returns a context that is done some time after ctx.
func later(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	after, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(d, cancel) })
	return after, func() { stop(); cancel() }
}
