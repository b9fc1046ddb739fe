package podstatus_test

import (
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/docket-export/docket/webhook/engine/podstatus"
	"github.com/docket-export/docket/webhook/engine/policy"
)

func aggregator(a *api) *podstatus.Aggregator {
	return podstatus.NewAggregator(podstatus.AggregatorConfig{Client: a, Namespace: namespace, Log: slog.New(slog.DiscardHandler)})
}

// scene is a cluster with pods and one that is none of ours, the aggregator, and all of it at rest.
func scene(t *testing.T, pods ...string) (a *api, replicas map[string]*replica, end func()) {
	t.Helper()
	a = newAPI(t)
	a.putPolicies(1)
	replicas = map[string]*replica{}
	a.putPod("bystander", func(p *corev1.Pod) { p.Labels = nil })
	for _, name := range pods {
		a.putPod(name)
		replicas[name] = a.start(name, slog.New(slog.DiscardHandler))
	}
	stop := run(t, aggregator(a).Run)
	later()
	a.taken()
	return a, replicas, func() {
		stop()
		for _, r := range replicas {
			r.stop()
		}
	}
}

// The states of a policy through the life of its pods.
func TestLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, replicas, end := scene(t, "a", "b", "c")
		defer end()
		state := func(what, want string) {
			t.Helper()
			later()
			eq(t, what+": template", a.status(templateResource, template.Name), want)
			eq(t, what+": constraint", a.status(constraintResource, constraint.Name), want)
		}
		state("at first", "Active: pods 3, enforcing 3 [a b c]")

		replicas["b"].set(1, 0, policy.Error, "CompileFailed")
		replicas["b"].Changed()
		state("one fails", "Degraded CompileFailed: pods 3, enforcing 2 [a b c]")
		entry := a.get(templateResource, "", template.Name).Object["status"].(map[string]any)["byPod"].([]any)[1].(map[string]any)
		for key, want := range map[string]any{
			"id": "b", "observedGeneration": 1, "enforcedGeneration": 0, "operations": "[webhook]", "templateUID": uid(template.Name),
			"phase": "Error", "reason": "CompileFailed", "errors": "[map[code:CompileFailed message:of CompileFailed]]",
		} {
			eq(t, key, entry[key], want)
		}
		entry = a.get(constraintResource, "", constraint.Name).Object["status"].(map[string]any)["byPod"].([]any)[1].(map[string]any)
		eq(t, "constraintUID", entry["constraintUID"], uid(constraint.Name))

		// Its pod is told to stop, then gone, and then there is another.
		a.putPod("b", func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Now()} })
		state("it stops", "Degraded PodTerminating: pods 2, enforcing 2 [a c]")
		replicas["b"].stop()
		a.dropPod("b")
		state("it is gone", "Active: pods 2, enforcing 2 [a c]")
		a.putPod("d")
		state("another starts", "Degraded NoStatus: pods 3, enforcing 2 [a c d]")
		replicas["d"] = a.start("d", slog.New(slog.DiscardHandler))
		state("it has said", "Active: pods 3, enforcing 3 [a c d]")

		a.putPod("e", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })
		state("an evicted pod", "Active: pods 3, enforcing 3 [a c d]")

		a.putPolicies(2)
		state("a generation that no pod has seen", "Degraded NotObserved: pods 3, enforcing 0 [a c d]")
		for _, name := range []string{"a", "c", "d"} {
			replicas[name].set(2, 1, policy.Degraded, "CompileFailed")
			replicas[name].Changed()
		}
		state("all keep the last", "Degraded CompileFailed: pods 3, enforcing 0 [a c d]")
		for _, name := range []string{"a", "c", "d"} {
			replicas[name].set(2, 0, policy.Error, "CompileFailed")
			replicas[name].Changed()
		}
		state("all fail", "Error CompileFailed: pods 3, enforcing 0 [a c d]")
		for _, name := range []string{"a", "c", "d"} {
			replicas[name].stop()
			a.dropPod(name)
		}
		state("no pod", "Error NoPods: pods 0, enforcing 0 []")
	})
}

// What was said of a template says nothing of another of its name.
func TestCreatedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _, end := scene(t, "a")
		defer end()
		o := a.get(templateResource, "", template.Name).DeepCopy()
		a.drop(templateResource, "", template.Name)
		o.SetUID("another")
		unstructured.RemoveNestedField(o.Object, "status")
		a.put(templateResource, o)
		later()
		eq(t, "status", a.status(templateResource, template.Name), "Error NoStatus: pods 1, enforcing 0 [a]")
	})
}

// Who changes the status has it changed back.
func TestStatusOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _, end := scene(t, "a")
		defer end()
		o := a.get(templateResource, "", template.Name).DeepCopy()
		o.Object["status"] = map[string]any{"created": true, "byPod": []any{map[string]any{"id": "long gone"}}}
		a.put(templateResource, o)
		later()
		eq(t, "requests", a.taken(), "[1 patch constrainttemplates/status]")
		eq(t, "status", a.status(templateResource, template.Name), "Active: pods 1, enforcing 1 [a]")
		if created := a.get(templateResource, "", template.Name).Object["status"].(map[string]any)["created"]; created != true {
			t.Errorf("got created %v, want what others have written", created)
		}
	})
}

// One policy that cannot be written does not keep others from it, and is written in the end.
func TestFailures(t *testing.T) {
	for _, resource := range []schema.GroupVersionResource{templateResource, constraintResource} {
		t.Run(resource.Resource, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, replicas, end := scene(t, "a")
				defer end()
				a.failing(func(_, failing string) error {
					if failing == resource.Resource {
						return errors.New("planted")
					}
					return nil
				})
				replicas["a"].set(1, 0, policy.Error, "CompileFailed")
				replicas["a"].Changed()
				later()
				want := map[schema.GroupVersionResource]string{templateResource: "Error CompileFailed: pods 1, enforcing 0 [a]"}
				want[constraintResource] = want[templateResource]
				want[resource] = "Active: pods 1, enforcing 1 [a]"
				eq(t, "template", a.status(templateResource, template.Name), want[templateResource])
				eq(t, "constraint", a.status(constraintResource, constraint.Name), want[constraintResource])
				a.failing(nil)
				later()
				later()
				eq(t, "template", a.status(templateResource, template.Name), "Error CompileFailed: pods 1, enforcing 0 [a]")
				eq(t, "constraint", a.status(constraintResource, constraint.Name), "Error CompileFailed: pods 1, enforcing 0 [a]")
			})
		})
	}
}

// The CRD of a kind that no pod reports may not be there: its constraints are not asked for.
func TestKindWithoutCRD(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		a.putPolicies(1)
		defer run(t, aggregator(a).Run)()
		later()
		for _, action := range a.Actions() {
			if action.GetResource() == constraintResource {
				t.Errorf("got %s of %s, want nothing", action.GetVerb(), constraintResource.Resource)
			}
		}
		eq(t, "template", a.status(templateResource, template.Name), "Error NoPods: pods 0, enforcing 0 []")
	})
}

// A kind whose template is gone is not watched any more.
func TestTemplateGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, replicas, end := scene(t, "a")
		defer end()
		a.drop(templateResource, "", template.Name)
		later()
		a.taken()
		replicas["a"].set(1, 0, policy.Error, "NoTemplate")
		replicas["a"].Changed()
		later()
		eq(t, "requests", a.taken(), "[1 patch policypodstatuses]")
		a.putPolicies(1)
		later()
		eq(t, "constraint", a.status(constraintResource, constraint.Name), "Error NoTemplate: pods 1, enforcing 0 [a]")
	})
}
