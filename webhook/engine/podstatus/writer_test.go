package podstatus_test

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/docket-export/docket/webhook/engine/podstatus"
	"github.com/docket-export/docket/webhook/engine/policy"
)

// statusOf is what the API server has of a pod.
func statusOf(t *testing.T, a *api, pod string) podstatus.PolicyPodStatus {
	t.Helper()
	var s podstatus.PolicyPodStatus
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(a.get(podstatus.Resource, namespace, pod).Object, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		r := a.start("a", slog.New(slog.DiscardHandler))
		defer r.stop()
		later()
		eq(t, "at the start", a.taken(), "[1 create policypodstatuses]")
		s := statusOf(t, a, "a")
		if len(s.OwnerReferences) != 1 || s.OwnerReferences[0].UID != uid("a") || s.OwnerReferences[0].Kind != "Pod" {
			t.Errorf("got the owners %+v, want the pod", s.OwnerReferences)
		}
		eq(t, "operations", s.Status.Operations, "[webhook]")
		if len(s.Status.Policies) != 2 {
			t.Fatalf("got %d policies, want 2", len(s.Status.Policies))
		}

		// A burst is one write.
		for range 15 {
			r.set(2, 1, policy.Degraded, "CompileFailed")
			r.Changed()
			time.Sleep(10 * time.Millisecond)
		}
		later()
		eq(t, "after a burst", a.taken(), "[1 patch policypodstatuses]")
		p := statusOf(t, a, "a").Status.Policies[0]
		if p.Kind != template.Kind || p.Name != template.Name || p.UID != uid(template.Name) || p.ObservedGeneration != 2 || p.EnforcedGeneration != 1 ||
			p.Phase != policy.Degraded || p.Reason != "CompileFailed" || p.Since == "" || len(p.Errors) != 1 || p.Errors[0].Message != "of CompileFailed" {
			t.Errorf("got %+v", p)
		}

		r.Changed()
		later()
		eq(t, "when nothing is different", a.taken(), "[]")

		a.drop(podstatus.Resource, namespace, "a")
		later()
		eq(t, "when somebody has deleted it", a.taken(), "[1 create policypodstatuses]")
		statusOf(t, a, "a")
	})
}

// A container that starts again finds the object of the one before, and a pod that of another of its name.
func TestWriterFindsAnObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		o := &unstructured.Unstructured{}
		o.SetAPIVersion("status.docket.dev/v1alpha1")
		o.SetKind("PolicyPodStatus")
		o.SetNamespace(namespace)
		o.SetName("a")
		a.put(podstatus.Resource, o)
		r := a.start("a", slog.New(slog.DiscardHandler))
		defer r.stop()
		later()
		eq(t, "requests", a.taken(), "[1 create policypodstatuses 1 patch policypodstatuses]")
		if s := statusOf(t, a, "a"); len(s.OwnerReferences) != 1 || s.OwnerReferences[0].UID != uid("a") || len(s.Status.Policies) != 2 {
			t.Errorf("got %+v", s)
		}
	})
}

// What fails is tried again, ever less often.
func TestWriterRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		r := a.start("a", slog.New(slog.DiscardHandler))
		defer r.stop()
		later()
		a.taken()
		a.failing(func(string, string) error {
			return apierrors.NewConflict(podstatus.Resource.GroupResource(), "a", nil)
		})
		r.set(2, 2, policy.Active, "")
		r.Changed()
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if n := a.number(); n < 5 || n > 60 {
			t.Errorf("got %d attempts in 5 minutes, want some that become rare", n)
		}
		a.failing(nil)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if p := statusOf(t, a, "a").Status.Policies[0]; p.EnforcedGeneration != 2 {
			t.Errorf("got %+v, want the second generation", p)
		}
	})
}

// A write that fails may have been done all the same: what was there before it is written again.
func TestWriterIsNotTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		r := a.start("a", slog.New(slog.DiscardHandler))
		defer r.stop()
		later()
		first := r.States()
		a.failing(func(verb, _ string) error {
			// The API server has written what the pod says, and cannot tell.
			if o := a.get(podstatus.Resource, namespace, "a").DeepCopy(); verb == "patch" {
				if err := unstructured.SetNestedSlice(o.Object, []any{}, "status", "policies"); err != nil {
					t.Error(err)
				}
				if err := a.Tracker().Update(podstatus.Resource, o, namespace); err != nil {
					t.Error(err)
				}
				r.mu.Lock()
				r.states = first
				r.mu.Unlock()
				a.fail = nil
				return apierrors.NewTimeoutError("planted", 1)
			}
			return nil
		})
		r.set(2, 2, policy.Active, "")
		r.Changed()
		later()
		if p := statusOf(t, a, "a").Status.Policies; len(p) != 2 || p[0].ObservedGeneration != 1 {
			t.Errorf("got %+v, want the first generation", p)
		}
	})
}

// An error of any length leaves room for those of other policies.
func TestWriterShortensErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		r := a.start("a", slog.New(slog.DiscardHandler))
		defer r.stop()
		r.set(1, 0, policy.Error, "CompileFailed")
		r.mu.Lock()
		r.states[0].Message = strings.Repeat("é", 100_000)
		r.mu.Unlock()
		r.Changed()
		later()
		got := statusOf(t, a, "a").Status.Policies[0].Errors[0].Message
		if len(got) > 2051 || !strings.HasSuffix(got, "é...") {
			t.Errorf("got %d bytes that end in %q", len(got), got[max(0, len(got)-8):])
		}
	})
}
