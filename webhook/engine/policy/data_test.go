package policy

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// uniqueTemplate is violated by a pod whose image another pod of its namespace has.
const uniqueTemplate = `
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: uniqueimages, generation: 1, uid: t3}
spec:
  crd: {spec: {names: {kind: UniqueImages}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package uniqueimages
      violation[{"msg": msg}] {
        other := data.inventory.namespace[input.review.namespace]["v1"]["Pod"][name]
        other.spec.containers[_].image == input.review.object.spec.containers[_].image
        msg := sprintf("pod %v has that image, port %v", [name, other.spec.containers[0].port])
      }
`

const uniqueConstraint = `{apiVersion: constraints.gatekeeper.sh/v1beta1, kind: UniqueImages, metadata: {name: unique, generation: 1}, spec: {}}`

const other = `{apiVersion: v1, kind: Pod, metadata: {name: first, namespace: shop}, spec: {containers: [{image: nginx, port: 8080}]}}`

var (
	podKind       = schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
	namespaceKind = schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}
)

func TestData(t *testing.T) {
	s := newSet(t, Options{}, object(t, uniqueTemplate), object(t, uniqueConstraint))
	missing := []string{"ConstraintTemplate/uniqueimages Error 0/1 DataNotSynced", "UniqueImages/unique Error 0/1 NoTemplate"}
	active := []string{"ConstraintTemplate/uniqueimages Active 1/1", "UniqueImages/unique Active 1/1"}
	wantStates(t, s, missing...)
	if err := s.PutData(t.Context(), object(t, other)); err == nil {
		t.Error("data of a kind that is not synced was taken")
	}
	s.Sync([]schema.GroupVersionKind{podKind})
	wantStates(t, s, active...)
	wantVerdict(t, s, create(pod), "")
	obj := object(t, other)
	if err := s.PutData(t.Context(), obj); err != nil {
		t.Fatal(err)
	}
	const has = "pod first has that image, port 8080"
	wantVerdict(t, s, create(pod), has)
	// A new revision of the policy has the data, and hears of more.
	s.Put(t.Context(), revised(t, uniqueTemplate, 2, "has that", "has the"))
	wantVerdict(t, s, create(pod), "pod first has the image, port 8080")
	s.Put(t.Context(), revised(t, uniqueTemplate, 3))
	if err := s.PutData(t.Context(), object(t, other, "nginx", "other")); err != nil {
		t.Fatal(err)
	}
	wantVerdict(t, s, create(pod), "")
	if err := s.PutData(t.Context(), object(t, other)); err != nil {
		t.Fatal(err)
	}
	wantVerdict(t, s, create(pod), has)
	if err := s.DeleteData(t.Context(), obj); err != nil {
		t.Fatal(err)
	}
	wantVerdict(t, s, create(pod), "")
	if err := s.DeleteData(t.Context(), obj); err != nil {
		t.Errorf("deleting what is not there: got %v", err)
	}
	// The objects of a kind that is no longer listed are gone, when it comes back too.
	if err := s.PutData(t.Context(), obj); err != nil {
		t.Fatal(err)
	}
	s.Sync([]schema.GroupVersionKind{namespaceKind})
	s.Sync([]schema.GroupVersionKind{namespaceKind, podKind})
	wantVerdict(t, s, create(pod), "")
	// Without its data, even the last valid revision would be wrong.
	s.Sync(nil)
	wantStates(t, s, "ConstraintTemplate/uniqueimages Error 0/3 DataNotSynced", "UniqueImages/unique Error 0/1 NoTemplate")
}

// While objects of a kind are still to come, a policy that needs them is not enforced on some of them.
func TestPendingData(t *testing.T) {
	pods := []schema.GroupVersionKind{podKind}
	s := newSet(t, Options{}, object(t, uniqueTemplate), object(t, uniqueConstraint))
	missing := []string{"ConstraintTemplate/uniqueimages Error 0/1 DataNotSynced", "UniqueImages/unique Error 0/1 NoTemplate"}
	for range 2 {
		s.Syncing(append(pods, namespaceKind), pods)
		wantStates(t, s, missing...)
		if err := s.PutData(t.Context(), object(t, other)); err != nil {
			t.Fatal(err)
		}
		wantVerdict(t, s, create(pod), "")
		s.Syncing(append(pods, namespaceKind), nil)
		wantStates(t, s, "ConstraintTemplate/uniqueimages Active 1/1", "UniqueImages/unique Active 1/1")
		wantVerdict(t, s, create(pod), "pod first has that image, port 8080")
		s.Sync(nil)
		wantStates(t, s, missing...)
	}
}

// A template names kinds in its code. One that does not spell its kind out, or reads all, needs any.
func TestKindsInCode(t *testing.T) {
	const spelled = `data.inventory.namespace[input.review.namespace]["v1"]["Pod"][name]`
	needsNode := "ConstraintTemplate/uniqueimages Error 0/1 DataNotSynced"
	for code, want := range map[string]string{
		spelled: "ConstraintTemplate/uniqueimages Active 1/1",
		`data.inventory.namespace[_][_].Pod[name]`:                 "ConstraintTemplate/uniqueimages Active 1/1",
		`data.inventory.namespace[_][_][kind][name]`:               "ConstraintTemplate/uniqueimages Active 1/1",
		`data.inventory[scope][_][_]["v1"][name]`:                  "ConstraintTemplate/uniqueimages Active 1/1",
		`data.inventory.cluster["v1"].Node[name]`:                  needsNode,
		`data.inventory["cluster"][_]["Node"][name]`:               needsNode,
		`data.inventory.namespace[_]["apps/v1"].Deployment[name]`:  needsNode,
		spelled + "\n        data.inventory.cluster.v1.Node[name]": needsNode,
	} {
		s := newSet(t, Options{})
		s.Sync([]schema.GroupVersionKind{podKind})
		s.Put(t.Context(), object(t, uniqueTemplate, spelled, code))
		if got := states(s); len(got) != 1 || got[0] != want {
			t.Errorf("%s: got the states %q, want %s", code, got, want)
		}
	}
}

// A template says what it needs, of which one of equivalent kinds is enough.
func TestRequiredData(t *testing.T) {
	needs := []string{"uid: t3", `uid: t3, annotations: {metadata.gatekeeper.sh/requires-sync-data: '"[[{"groups": ["", "x"], "versions": ["v1"], "kinds": ["Pod"]}], [{"groups": [""], "versions": ["v1"], "kinds": ["Namespace"]}]]"'}`}
	s := newSet(t, Options{})
	s.Sync([]schema.GroupVersionKind{podKind})
	s.Put(t.Context(), object(t, uniqueTemplate, needs...))
	wantStates(t, s, "ConstraintTemplate/uniqueimages Error 0/1 DataNotSynced")
	s.Sync([]schema.GroupVersionKind{podKind, namespaceKind})
	wantStates(t, s, "ConstraintTemplate/uniqueimages Active 1/1")
	s.Sync([]schema.GroupVersionKind{{Group: "x", Version: "v1", Kind: "Pod"}, namespaceKind})
	wantStates(t, s, "ConstraintTemplate/uniqueimages Active 1/1")
}

// As in Gatekeeper, an annotation that nobody can read asks for nothing.
func TestUnreadableAnnotation(t *testing.T) {
	unreadable := []string{"uid: t1", "uid: t1, annotations: {metadata.gatekeeper.sh/requires-sync-data: x}"}
	wantStates(t, newSet(t, Options{}, object(t, regoTemplate, unreadable...)), "ConstraintTemplate/neededlabels Active 1/1")
}

// A namespace among the data is what selectors match where the caller knows none.
func TestNamespaceAmongTheData(t *testing.T) {
	s := newSet(t, Options{}, object(t, regoTemplate), object(t, regoConstraint, "kinds: [{", "namespaceSelector: {matchLabels: {tier: front}}, kinds: [{"))
	s.Sync([]schema.GroupVersionKind{namespaceKind})
	ns := object(t, `{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {tier: back}}}`)
	for _, c := range []struct{ tier, want string }{{"back", ""}, {"front", teamIsNeeded}} {
		ns = ns.DeepCopy()
		ns.SetLabels(map[string]string{"tier": c.tier})
		if err := s.PutData(t.Context(), ns); err != nil {
			t.Fatal(err)
		}
		wantVerdict(t, s, create(pod), c.want)
	}
	if err := s.DeleteData(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	if got := verdict(t, s, create(pod)); got == "" || got == teamIsNeeded {
		t.Errorf("got the verdict %q, want that the namespace is not known", got)
	}
}

// Everything at once, for the race detector; what is in the end is what was put last.
func TestAtOnce(t *testing.T) {
	s := newSet(t, Options{Revisions: &memory{}, Changed: func() {}}, object(t, uniqueTemplate), object(t, uniqueConstraint))
	s.Sync([]schema.GroupVersionKind{podKind})
	ctx, stop := context.WithCancel(t.Context())
	var all, run sync.WaitGroup
	run.Go(func() {
		if err := s.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	const rounds = 20
	for _, f := range []func(int){
		func(i int) { s.Put(t.Context(), revised(t, uniqueTemplate, i+2)) },
		func(i int) { s.Put(t.Context(), revised(t, uniqueConstraint, i+2)) },
		func(i int) {
			s.Put(t.Context(), object(t, regoTemplate))
			s.Delete(object(t, regoTemplate))
		},
		func(i int) { s.Put(t.Context(), object(t, regoConstraint)) },
		func(i int) {
			if err := s.PutData(t.Context(), object(t, other, "first", fmt.Sprint("p", i))); err != nil {
				t.Error(err)
			}
		},
		func(i int) {
			if v := s.Review(t.Context(), create(pod)); len(v.Failures) > 0 {
				t.Error(v.Failures)
			}
			s.States()
		},
		func(i int) {
			if err := s.Check(object(t, uniqueConstraint)); err != nil {
				t.Error(err)
			}
		},
		func(i int) { s.Sync([]schema.GroupVersionKind{podKind, {Version: "v1", Kind: fmt.Sprint("K", i)}}) },
	} {
		all.Go(func() {
			for i := range rounds {
				f(i)
			}
		})
	}
	all.Wait()
	stop()
	run.Wait()
	wantStates(t, s, fmt.Sprintf("ConstraintTemplate/uniqueimages Active %d/%[1]d", rounds+1), "NeededLabels/team Error 0/1 NoTemplate", fmt.Sprintf("UniqueImages/unique Active %d/%[1]d", rounds+1))
	if v := s.Review(t.Context(), create(pod)); len(v.Violations) != rounds {
		t.Errorf("got %d violations, want one of each of the %d pods", len(v.Violations), rounds)
	}
}
