package audit

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/docket-export/docket/client/clienttest"
	"github.com/docket-export/docket/decision"
	"github.com/docket-export/docket/webhook/engine/policy"
)

// pageSize is such that a kind of the tests has three pages.
const (
	pageSize = 2
	pages    = 3
	each     = pages * pageSize // objects of a kind
)

// audited makes one run in a bubble, and returns what came of it and what docket has.
func audited(t *testing.T, change func(*Config, *docket)) (report Report, violations []decision.Record) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d := newDocket(t)
		c := Config{Policies: &policies{}, Lister: newCluster(pages, pageSize), Client: d.client, ChunkSize: pageSize}
		change(&c, d)
		var err error
		report, err = Run(t.Context(), c)
		var runs []decision.Run
		violations, runs = d.stop(t)
		if err != nil {
			if len(runs) != 0 {
				t.Errorf("got the runs %+v with %v", runs, err)
			}
			return
		}
		if len(runs) != 1 || !reflect.DeepEqual(runs[0], report.Run) {
			t.Errorf("docket has the runs %+v, the report says %+v", runs, report.Run)
		}
	})
	check(t, report, violations)
	return report, violations
}

// check compares what a run says of itself with what docket has.
func check(t *testing.T, report Report, violations []decision.Record) {
	t.Helper()
	if uint64(len(violations)) < report.Violations || report.Complete && uint64(len(violations)) != report.Violations {
		t.Errorf("%d violations were stored, the run says %d", len(violations), report.Violations)
	}
	if report.Complete && *report.Reported != report.Violations {
		t.Errorf("a complete run has stored %d of %d violations", report.Violations, *report.Reported)
	}
	if report.Complete != (report.Reason == decision.AllReviewed) || report.Complete != (report.Detail == "") {
		t.Errorf("got complete: %v for reason %s, detail %q", report.Complete, report.Reason, report.Detail)
	}
	seen := map[string]int{}
	for _, v := range violations {
		key := v.Name + " " + v.ResourceKind + "/" + v.ResourceName
		if seen[key]++; seen[key] > 1 {
			t.Errorf("%s has more than one record", key)
		}
		if v.AuditID != report.ID {
			t.Errorf("got a violation of the run %q, want %q", v.AuditID, report.ID)
		}
	}
}

func TestRun(t *testing.T) {
	c, p := newCluster(pages, pageSize), &policies{}
	var told []string
	report, violations := audited(t, func(config *Config, _ *docket) {
		config.Lister, config.Policies, config.Cluster, config.Pod = c, p, "east", "audit-0"
		config.Found = func(r *decision.Record) { told = append(told, r.ResourceName) }
	})
	want := decision.Run{
		EventType: decision.AuditRun, ID: "2000-01-01T00:00:00Z", Complete: true, Reason: decision.AllReviewed,
		Violations: 2 * each, Reported: new(uint64(2 * each)),
		Constraints: []decision.RunConstraint{
			{Group: "constraints.gatekeeper.sh", Kind: "Banned", Name: "no-pods", Violations: each, Reported: new(uint64(each))},
			{Group: "constraints.gatekeeper.sh", Kind: "Banned", Name: "no-roles", Violations: each, Reported: new(uint64(each))},
		},
	}
	if !reflect.DeepEqual(report.Run, want) {
		t.Errorf("got the run %+v\nwant %+v", report.Run, want)
	}
	if report.Objects != 2*each+1 || report.Decisions[decision.Deny] != each || report.Decisions[decision.DryRun] != each {
		t.Errorf("got %+v, want %d objects, %d denies and dry runs", report, 2*each+1, each)
	}
	first := violations[0]
	if first.Timestamp.IsZero() {
		t.Error("a violation has no time")
	}
	first.Timestamp = time.Time{}
	wantFirst := decision.Record{
		ID: want.ID, AuditID: want.ID, EventType: decision.ViolationAudited, Process: decision.Audit, SchemaVersion: 1,
		Group: "constraints.gatekeeper.sh", Version: "v1beta1", Kind: "Banned", Name: "no-pods", Template: "banned",
		Message: strings.Repeat("m", 300), Details: []byte(`{"x":1}`), EnforcementAction: "deny", Decision: decision.Deny,
		ResourceAPIVersion: "v1", ResourceKind: "Pod", ResourceNamespace: "shop", ResourceName: "pod-000000", ResourceUID: "uid-of-pod-000000",
		ResourceLabels: map[string]string{"app": "pod-000000"}, Cluster: "east", Pod: "audit-0", Sequence: 1,
	}
	if !reflect.DeepEqual(first, wantFirst) {
		t.Errorf("got the record %+v\nwant %+v", first, wantFirst)
	}
	if !slices.EqualFunc(told, violations, func(name string, r decision.Record) bool { return name == r.ResourceName }) {
		t.Errorf("was told of %v, stored were %d", told, len(violations))
	}
	for _, r := range p.asked {
		if namespaced := r.Object.GetNamespace() != ""; namespaced != (r.Namespace != nil && r.Namespace.Name == "shop") || r.Point != "audit.gatekeeper.sh" {
			t.Errorf("%s: reviewed with the namespace %v at %s", r.Object.GetName(), r.Namespace, r.Point)
		}
	}
	if calls := slices.DeleteFunc(slices.Clone(c.calls), func(call string) bool { return call != "namespace shop" }); len(calls) != 1 {
		t.Errorf("got the calls %v, want one for the namespace", c.calls)
	}
}

func TestWhatIsLeftOut(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*Config)
		want   uint64 // objects
	}{
		"nothing":         {func(*Config) {}, 2*each + 1},
		"other kinds":     {func(c *Config) { c.MatchKindOnly = true }, each},
		"exempt":          {func(c *Config) { c.Exempt = func(ns string) bool { return ns == "shop" } }, each},
		"all but exempt":  {func(c *Config) { c.Exempt = func(ns string) bool { return ns == "" } }, each + 1},
		"a namespace out": {func(c *Config) { c.Lister.(*cluster).objects[namespaces] = nil }, each},
	} {
		t.Run(name, func(t *testing.T) {
			report, _ := audited(t, func(c *Config, _ *docket) { tt.change(c) })
			if report.Objects != tt.want || !report.Complete {
				t.Errorf("got %d objects, complete: %v (%s); want %d", report.Objects, report.Complete, report.Detail, tt.want)
			}
		})
	}
}

// Each call to the API server fails in each way, and the run says what came of it.
func TestListerFaults(t *testing.T) {
	clean := newCluster(pages, pageSize)
	audited(t, func(c *Config, _ *docket) { c.Lister = clean })
	if len(clean.calls) != 1+1+2*pages+1 {
		t.Fatalf("got the calls %v", clean.calls)
	}
	for _, call := range clean.calls {
		kind, page, _ := strings.Cut(call, " ")
		follows := page > "0" && page <= "9" // it has a token
		for name, fault := range map[string]struct {
			err      error
			times    int
			complete bool
		}{
			"busy once":          {errBusy, 1, true},
			"busy for a while":   {errBusy, 4, true},
			"busy":               {errBusy, 1000, false},
			"forbidden":          {errForbidden, 1000, false},
			"expired":            {nil, 1, follows},
			"expired, no way on": {expiredError(""), 1, follows},
			"expired for ever":   {expiredError(""), 1000, false},
			"hangs":              {context.DeadlineExceeded, 4, true},
		} {
			if strings.HasPrefix(name, "expired") && !follows {
				continue
			}
			t.Run(call+" "+name, func(t *testing.T) {
				c, left := newCluster(pages, pageSize), fault.times
				c.before = func(got string) error {
					if got != call || left == 0 {
						return nil
					}
					left--
					if name == "expired" {
						n, _ := strconv.Atoi(page)
						return expiredError("fresh-" + strconv.Itoa(n*pageSize))
					}
					return fault.err
				}
				report, _ := audited(t, func(config *Config, _ *docket) { config.Lister = c })
				if report.Complete != fault.complete || !fault.complete && report.Reason != decision.NotListed {
					t.Errorf("got complete: %v, %s %q; want %v", report.Complete, report.Reason, report.Detail, fault.complete)
				}
				if fault.complete && report.Violations != 2*each {
					t.Errorf("got %d violations, want %d", report.Violations, 2*each)
				}
				if kind == "Pod" && report.Decisions[decision.DryRun] != each {
					t.Errorf("got %d violations of the other kind, want %d", report.Decisions[decision.DryRun], each)
				}
				if name == "expired" && strings.Count(strings.Join(c.calls, ","), kind+" 0") != 1 {
					t.Errorf("got the calls %v, want to go on where the list was", c.calls)
				}
			})
		}
	}
}

// A list that begins anew has other objects, and one of the same name that is another.
func TestExpiredWithChanges(t *testing.T) {
	c := newCluster(pages, pageSize)
	c.before = func(call string) error {
		if call != "Pod 2" || len(c.calls) > 6 {
			return nil
		}
		all := c.objects[pods]
		again := newObject(pods, "shop", "pod-000001")
		again.SetUID("another")
		c.objects[pods] = append([]*unstructured.Unstructured{newObject(pods, "shop", "a-new-one"), all[0], again}, all[2:]...)
		return expiredError("")
	}
	var names []string
	report, err := Run(t.Context(), Config{Policies: &policies{}, Lister: c, ChunkSize: pageSize, Found: func(r *decision.Record) {
		if r.ResourceKind == "Pod" {
			names = append(names, r.ResourceName)
		}
	}})
	slices.Sort(names)
	want := []string{"a-new-one", "pod-000000", "pod-000001", "pod-000001", "pod-000002", "pod-000003", "pod-000004", "pod-000005"}
	if err != nil || !report.Complete || !slices.Equal(names, want) {
		t.Errorf("got %v, %+v, %v; want %v", names, report, err, want)
	}
}

func TestPolicyFaults(t *testing.T) {
	state := func(phase policy.Phase, enforced int64, uid types.UID) policy.State {
		return policy.State{ID: policy.ID{Kind: "Banned", Name: "no-pods"}, UID: uid, Phase: phase, Reason: "CompileFailed", Message: "line 3", Enforced: enforced}
	}
	since := func(s policy.State, seconds int64) policy.State {
		s.Since = time.Unix(seconds, 0)
		return s
	}
	observed := func(s policy.State, generation int64) policy.State {
		s.Observed = generation
		return s
	}
	for name, tt := range map[string]struct {
		before, after []policy.State
		failing       bool
		want          decision.RunReason
		detail        string
	}{
		"active":            {before: []policy.State{state(policy.Active, 1, "a")}, after: []policy.State{state(policy.Active, 1, "a")}, want: decision.AllReviewed},
		"an older revision": {before: []policy.State{since(state(policy.Active, 1, "a"), 1)}, after: []policy.State{since(state(policy.Degraded, 1, "a"), 2)}, want: decision.AllReviewed},
		"broken again":      {before: []policy.State{observed(since(state(policy.Degraded, 1, "a"), 1), 2)}, after: []policy.State{observed(since(state(policy.Degraded, 1, "a"), 2), 3)}, want: decision.AllReviewed},
		"off meanwhile":     {before: []policy.State{since(state(policy.Active, 1, "a"), 1)}, after: []policy.State{since(state(policy.Active, 1, "a"), 2)}, want: decision.PolicyChanged, detail: "Banned/no-pods was changed"},
		"error":             {before: []policy.State{state(policy.Error, 0, "a")}, after: []policy.State{state(policy.Error, 0, "a")}, want: decision.PolicyFailed, detail: "Banned/no-pods is in Error: CompileFailed: line 3"},
		"mended":            {before: []policy.State{state(policy.Error, 0, "a")}, after: []policy.State{state(policy.Active, 1, "a")}, want: decision.PolicyFailed, detail: "was changed"},
		"added":             {after: []policy.State{state(policy.Active, 1, "a")}, want: decision.PolicyChanged, detail: "Banned/no-pods was changed"},
		"removed":           {before: []policy.State{state(policy.Active, 1, "a")}, want: decision.PolicyChanged, detail: "Banned/no-pods was changed"},
		"changed":           {before: []policy.State{state(policy.Active, 1, "a")}, after: []policy.State{state(policy.Active, 2, "a")}, want: decision.PolicyChanged, detail: "Banned/no-pods was changed"},
		"made anew":         {before: []policy.State{state(policy.Active, 1, "a")}, after: []policy.State{state(policy.Active, 1, "b")}, want: decision.PolicyChanged, detail: "Banned/no-pods was changed"},
		"panics":            {failing: true, want: decision.PolicyFailed, detail: "Banned/no-pods could not decide on Pod shop/pod-000000: panic (6 times)"},
	} {
		t.Run(name, func(t *testing.T) {
			report, violations := audited(t, func(c *Config, _ *docket) {
				p := &policies{states: tt.before}
				p.review = func(_ context.Context, r policy.Request) *policy.Verdict {
					p.states = tt.after
					if tt.failing && r.Object.GetKind() == "Pod" {
						v := violations("another", "warn")
						v.Failures = []policy.Failure{{ID: policy.ID{Kind: "Banned", Name: "no-pods"}, Err: errors.New("panic")}}
						return &v
					}
					return nil
				}
				c.Policies = p
			})
			if report.Reason != tt.want || !strings.Contains(report.Detail, tt.detail) || len(violations) != 2*each {
				t.Errorf("got %s %q with %d violations, want %s %q with all", report.Reason, report.Detail, len(violations), tt.want, tt.detail)
			}
		})
	}
}

// A policy that never decides costs a run a minute, and not hours.
func TestPolicyAlwaysHangs(t *testing.T) {
	const objects = 1000
	asked := 0
	report, _ := audited(t, func(c *Config, _ *docket) {
		c.Lister, c.ChunkSize = newCluster(objects/100, 100), 100
		c.Policies = &policies{review: func(ctx context.Context, r policy.Request) *policy.Verdict {
			if r.Skip["banned"] {
				return nil
			}
			asked++
			<-ctx.Done()
			v := policy.Verdict{Failures: []policy.Failure{{ID: policy.ID{Kind: policy.TemplateKind, Name: "banned"}, Err: ctx.Err()}}}
			return &v
		}}
	})
	if asked != maxLate || report.Objects != 2*objects+1 || report.Reason != decision.PolicyFailed || !strings.Contains(report.Detail, "ConstraintTemplate/banned was asked no more") {
		t.Errorf("asked %d times, got %+v; want all objects reviewed by the other policies", asked, report)
	}
}

// A run that is cancelled at any step says so, and what it has stored until then.
func TestCancelled(t *testing.T) {
	steps := 0
	for step := 0; ; step++ {
		steps = 0
		cause := errors.New("the pod is stopping")
		var report Report
		synctest.Test(t, func(t *testing.T) {
			d := newDocket(t)
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			next := func() {
				if steps == step {
					cancel(cause)
				}
				steps++
			}
			c := newCluster(pages, pageSize)
			c.before = func(string) error { next(); return nil }
			var err error
			report, err = Run(ctx, Config{Lister: c, Client: d.client, ChunkSize: pageSize, Policies: &policies{
				review: func(context.Context, policy.Request) *policy.Verdict { next(); return nil },
			}})
			violations, runs := d.stop(t)
			if err != nil || len(runs) != 1 || report.Violations != *report.Reported {
				t.Errorf("step %d: got %+v, %v, %+v", step, runs, err, report)
			}
			check(t, report, violations)
		})
		if step == steps {
			if !report.Complete {
				t.Errorf("got %+v, want a run that was not cancelled to be complete", report)
			}
			break
		}
		if report.Reason != decision.Abandoned || !strings.Contains(report.Detail, cause.Error()) {
			t.Errorf("step %d: got %s %q, want the cause", step, report.Reason, report.Detail)
		}
	}
	if steps < 2*each {
		t.Errorf("got %d steps, want more", steps)
	}
}

func TestRecordsRefused(t *testing.T) {
	report, violations := audited(t, func(_ *Config, d *docket) {
		d.Refuse(func(l clienttest.Line) (string, string) {
			if strings.Contains(l.Text, "pod-000002") {
				return "TooLarge", "too large"
			}
			return "", ""
		})
	})
	if report.Reason != decision.LinesLost || report.Violations != 2*each-1 || *report.Reported != 2*each || len(violations) != 2*each-1 {
		t.Errorf("got %+v, want one of %d not stored", report, 2*each)
	}
	if c := report.Constraints[0]; c.Violations != each-1 || *c.Reported != each || report.Objects != 2*each+1 {
		t.Errorf("got %+v, want one less than reported", c)
	}
}

// Docket that takes nothing ends the run, and one that comes back within a minute does not.
func TestDocketSilent(t *testing.T) {
	for name, tt := range map[string]struct {
		do   func(*docket)
		want decision.RunReason
	}{
		"for ever":    {func(d *docket) { d.Down() }, decision.LinesLost},
		"for a while": {func(d *docket) { d.Down(); time.AfterFunc(storeTimeout/2, d.Up) }, decision.AllReviewed},
	} {
		t.Run(name, func(t *testing.T) {
			report, _ := audited(t, func(_ *Config, d *docket) {
				tt.do(d)
			})
			if report.Reason != tt.want {
				t.Errorf("got %s %q, want %s", report.Reason, report.Detail, tt.want)
			}
		})
	}
}

// A run with more violations than wait at a time stores them as it goes, and ends with the first that are not.
func TestStoresAsItGoes(t *testing.T) {
	const large = 2 * maxPending
	for name, down := range map[string]bool{"up": false, "down": true} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(large/100, 100)
			report, _ := audited(t, func(config *Config, d *docket) {
				config.Lister, config.ChunkSize = c, 100
				if down {
					d.Down()
				}
			})
			pages := slices.DeleteFunc(c.calls, func(call string) bool { return !strings.HasPrefix(call, "Pod") })
			if want := map[bool]int{false: len(c.objects[pods]) / 100, true: maxPending/100 + 1}[down]; len(pages) != want {
				t.Errorf("got %d pages listed, want %d", len(pages), want)
			}
			if report.Complete == down || down && !strings.Contains(report.Detail, "docket has not stored the records") {
				t.Errorf("got complete: %v, %s %q", report.Complete, report.Reason, report.Detail)
			}
		})
	}
}

// What a run says of itself is bounded.
func TestManyFaults(t *testing.T) {
	report, _ := audited(t, func(c *Config, _ *docket) {
		c.Policies = &policies{review: func(_ context.Context, r policy.Request) *policy.Verdict {
			v := policy.Verdict{}
			for i := range 100 {
				v.Failures = append(v.Failures, policy.Failure{ID: policy.ID{Kind: "Banned", Name: fmt.Sprint(i)}, Err: errors.New(strings.Repeat("ü", 10_000))})
			}
			return &v
		}}
		c.Lister.(*cluster).before = func(call string) error {
			if call == "Pod 0" {
				return errForbidden
			}
			return nil
		}
	})
	if len(report.Detail) > maxFaults*(maxFaultText+100) || !strings.Contains(report.Detail, "and ") {
		t.Errorf("got a detail of %d bytes: %s", len(report.Detail), report.Detail)
	}
	if report.Reason != decision.NotListed {
		t.Errorf("got %s, want the reason that comes first", report.Reason)
	}
}
