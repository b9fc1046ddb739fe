package policy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-policy-agent/gatekeeper/v3/pkg/util"
	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"
	opatypes "github.com/open-policy-agent/opa/v1/types"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// test_panic is a part of Rego that has a bug, test_hang one that does not end by itself.
func TestMain(m *testing.M) {
	rego.RegisterBuiltin1(&rego.Function{Name: "test_hang", Decl: opatypes.NewFunction(opatypes.Args(opatypes.A), opatypes.A)},
		func(c rego.BuiltinContext, _ *ast.Term) (*ast.Term, error) {
			<-c.Context.Done()
			return nil, c.Context.Err()
		})
	rego.RegisterBuiltin1(&rego.Function{Name: "test_panic", Decl: opatypes.NewFunction(opatypes.Args(opatypes.A), opatypes.A)},
		func(_ rego.BuiltinContext, arg *ast.Term) (*ast.Term, error) {
			if arg.Equal(ast.StringTerm("bad")) {
				panic("a bug")
			}
			return arg, nil
		})
	os.Exit(m.Run())
}

// revised is obj as its next revision.
func revised(t testing.TB, text string, generation int, replace ...string) *unstructured.Unstructured {
	obj := object(t, text, replace...)
	obj.SetGeneration(int64(generation))
	return obj
}

// states says each state in a line, with its message cut off.
func states(s *Set) (list []string) {
	for _, st := range s.States() {
		list = append(list, strings.TrimSpace(fmt.Sprintf("%s %s %d/%d %s", st.ID, st.Phase, st.Enforced, st.Observed, st.Reason)))
	}
	return list
}

func wantStates(t *testing.T, s *Set, want ...string) {
	t.Helper()
	if got := states(s); !slices.Equal(got, want) {
		t.Errorf("got the states %q, want %q", got, want)
	}
}

func wantMessage(t *testing.T, s *Set, id ID, want string) {
	t.Helper()
	if st, _ := s.State(id); !strings.Contains(st.Message, want) {
		t.Errorf("%s: got the message %q, want %q in it", id, st.Message, want)
	}
}

// verdict says what the violations and failures are.
func verdict(t testing.TB, s *Set, r Request) string {
	v := s.Review(t.Context(), r)
	var list []string
	for _, v := range v.Violations {
		list = append(list, v.Message)
	}
	for _, f := range v.Failures {
		list = append(list, f.Error())
	}
	return strings.Join(list, "; ")
}

func wantVerdict(t *testing.T, s *Set, r Request, want string) {
	t.Helper()
	if got := verdict(t, s, r); got != want {
		t.Errorf("got the verdict %q, want %q", got, want)
	}
}

// memory keeps revisions.
type memory struct {
	mu      sync.Mutex
	kept    map[ID]*unstructured.Unstructured
	failing int // as many calls fail
	calls   int
	held    chan struct{} // Last waits for it, if there is one
	asked   chan struct{}
	keeping chan struct{} // Keep waits for it, if there is one
}

func (m *memory) fail() error {
	m.calls++
	if m.failing > 0 {
		m.failing--
		return errors.New("the store is away")
	}
	return nil
}

func (m *memory) Last(_ context.Context, id ID, uid types.UID) (*unstructured.Unstructured, error) {
	if m.held != nil {
		close(m.asked)
		<-m.held
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if obj := m.kept[id]; obj != nil && obj.GetUID() == uid {
		return obj, m.fail()
	}
	return nil, m.fail()
}

func (m *memory) Keep(_ context.Context, obj *unstructured.Unstructured) error {
	if m.keeping != nil {
		<-m.keeping
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.fail(); err != nil {
		return err
	}
	if m.kept == nil {
		m.kept = map[ID]*unstructured.Unstructured{}
	}
	m.kept[idOf(obj)] = obj
	return nil
}

// fails has the next n calls fail, and returns how many there were so far.
func (m *memory) fails(n int) (calls int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failing = n
	return m.calls
}

func (m *memory) generation(id ID) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.kept[id] == nil {
		return 0
	}
	return m.kept[id].GetGeneration()
}

const teamIsNeeded, ownerIsNeeded = "label team is needed", "an owner is needed"

// A broken template leaves its last valid revision in force and touches no other policy; its fix is picked up.
func TestBrokenTemplate(t *testing.T) {
	for name, broken := range map[string][]string{
		"Rego that does not parse":   {"package neededlabels", "package neededlabels {"},
		"Rego that does not compile": {"not input.review.object.metadata.labels[label]", "not labelled(label)"},
		"no target":                  {"target: admission.k8s.gatekeeper.sh", "target: other"},
		"not of the schema":          {"names: {kind: NeededLabels}", "names: [NeededLabels]"},
		"another kind":               {"kind: NeededLabels", "kind: Other"},
		"version":                    {"sh/v1", "sh/v0"},
		"operations":                 {"rego: |", "operations: [CREATE, '*']\n    rego: |"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSet(t, Options{}, object(t, regoTemplate), object(t, regoConstraint), object(t, celTemplate), object(t, celConstraint))
			s.Put(t.Context(), revised(t, regoTemplate, 2, broken...))
			wantStates(t, s, "ConstraintTemplate/neededlabels Degraded 1/2 CompileFailed", "ConstraintTemplate/ownedpods Active 1/1", "NeededLabels/team Active 1/1", "OwnedPods/owned Active 1/1")
			wantVerdict(t, s, create(pod), teamIsNeeded+"; "+ownerIsNeeded)
			s.Put(t.Context(), revised(t, regoConstraint, 2, "[team]", "[cost]")) // of the last valid template
			wantVerdict(t, s, create(pod), "label cost is needed; "+ownerIsNeeded)
			s.Put(t.Context(), revised(t, regoTemplate, 3, "is needed", "is missing"))
			wantStates(t, s, "ConstraintTemplate/neededlabels Active 3/3", "ConstraintTemplate/ownedpods Active 1/1", "NeededLabels/team Active 2/2", "OwnedPods/owned Active 1/1")
			wantVerdict(t, s, create(pod), "label cost is missing; "+ownerIsNeeded)
		})
	}
}

// The framework's CEL driver takes expressions that do not compile, and reports them at each review.
func TestBrokenCEL(t *testing.T) {
	const whole = `has(object.metadata.annotations) && "owner" in object.metadata.annotations`
	for name, broken := range map[string][]string{
		"validation":         {whole, "has(object.metadata"},
		"validation's types": {whole, `"text"`},
		"message":            {"message: an owner is needed", "messageExpression: nothing.like.it"},
		"variable":           {"validations:", "variables: [{name: v, expression: nothing}]\n        validations:"},
		"reserved variable":  {"validations:", "variables: [{name: params, expression: '1'}]\n        validations:"},
		"match condition":    {"validations:", "matchCondition: [{name: m, expression: nothing}]\n        validations:"},
		"failure policy":     {"validations:", "failurePolicy: Perhaps\n        validations:"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSet(t, Options{}, revised(t, celTemplate, 2, broken...), object(t, celConstraint))
			wantStates(t, s, "ConstraintTemplate/ownedpods Error 0/2 CompileFailed", "OwnedPods/owned Error 0/1 NoTemplate")
			wantVerdict(t, s, create(pod), "")
			if err := s.Check(object(t, celTemplate, broken...)); err == nil {
				t.Error("Check took it")
			}
		})
	}
}

// A constraint that does not fit leaves its own last valid revision in force.
func TestInvalidConstraint(t *testing.T) {
	s := newSet(t, Options{}, object(t, regoTemplate), object(t, regoConstraint))
	for name, broken := range map[string][]string{
		"parameters": {"[team]", "team"},
		"selector":   {"kinds: [{", "labelSelector: {matchExpressions: [{key: a, operator: Maybe}]}, kinds: [{"},
		"scoped":     {"spec:", "spec:\n  enforcementAction: scoped"},
	} {
		t.Run(name, func(t *testing.T) {
			s.Put(t.Context(), revised(t, regoConstraint, 2, broken...))
			wantStates(t, s, "ConstraintTemplate/neededlabels Active 1/1", "NeededLabels/team Degraded 1/2 InvalidConstraint")
			wantVerdict(t, s, create(pod), teamIsNeeded)
			if err := s.Check(object(t, regoConstraint, broken...)); err == nil {
				t.Error("Check took it")
			}
		})
	}
}

// A new pod serves the last valid revision, which another pod has kept.
func TestNewPodServesTheLastValidRevision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &memory{failing: 3}
		s := newSet(t, Options{Revisions: store}, object(t, regoTemplate), object(t, regoConstraint))
		go s.Run(t.Context())
		synctest.Wait()
		if n := store.fails(1); n != 2 {
			t.Errorf("got %d calls at once, want 2", n)
		}
		time.Sleep(time.Minute) // longer than any backoff so far
		synctest.Wait()
		if a, b := store.generation(ID{TemplateKind, "neededlabels"}), store.generation(ID{"NeededLabels", "team"}); a != 1 || b != 1 {
			t.Fatalf("kept: got generations %d and %d, want 1 of both", a, b)
		}
		if n := store.fails(2); n != 5 { // one call for each Put below
			t.Errorf("got %d calls, want 5: three that failed and two that did not", n)
		}

		// In the new pod, the store is away at first, and Run asks it again.
		told := 0
		s = newSet(t, Options{Revisions: store, Changed: func() { told++ }}, revised(t, regoTemplate, 2, "package", "package {"), object(t, regoConstraint))
		wantStates(t, s, "ConstraintTemplate/neededlabels Error 0/2 CompileFailed", "NeededLabels/team Error 0/1 NoTemplate")
		wantMessage(t, s, ID{TemplateKind, "neededlabels"}, "the store is away")
		go s.Run(t.Context())
		time.Sleep(time.Minute)
		synctest.Wait()
		wantStates(t, s, "ConstraintTemplate/neededlabels Degraded 1/2 CompileFailed", "NeededLabels/team Active 1/1")
		wantVerdict(t, s, create(pod), teamIsNeeded)
		if told != 4 {
			t.Errorf("got told of %d changes, want 4: each state twice", told)
		}

		// Of a template with another UID, that revision is not the last.
		s = newSet(t, Options{Revisions: store}, revised(t, regoTemplate, 1, "uid: t1", "uid: t9", "package", "package {"))
		wantStates(t, s, "ConstraintTemplate/neededlabels Error 0/1 CompileFailed")
	})
}

// A revision that becomes valid while the one before is kept is kept too.
func TestNextRevisionIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &memory{keeping: make(chan struct{})}
		s := newSet(t, Options{Revisions: store}, object(t, regoTemplate))
		go s.Run(t.Context())
		synctest.Wait()
		s.Put(t.Context(), revised(t, regoTemplate, 2))
		close(store.keeping)
		synctest.Wait()
		if got := store.generation(ID{TemplateKind, "neededlabels"}); got != 2 {
			t.Errorf("kept: got generation %d, want 2", got)
		}
	})
}

func TestOnPolicyError(t *testing.T) {
	broken := []string{"package", "package {"}
	deployment := create(`{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"}}`)
	for mode, want := range map[OnError]struct{ never, degraded, template string }{
		KeepLast: {"", teamIsNeeded, "Degraded 1/2 CompileFailed"},
		Reject:   {"policy NeededLabels/team: " + errNotLoaded.Error(), teamIsNeeded, "Degraded 1/2 CompileFailed"},
		Ignore:   {"", "", "Error 0/2 CompileFailed"},
	} {
		t.Run(string(mode), func(t *testing.T) {
			s := newSet(t, Options{OnError: mode}, object(t, regoTemplate, broken...), object(t, regoConstraint),
				object(t, regoConstraint, "name: team", "name: tried", "spec:", "spec:\n  enforcementAction: dryrun"))
			wantVerdict(t, s, create(pod), want.never)
			wantVerdict(t, s, deployment, "") // which no constraint matches
			s = newSet(t, Options{OnError: mode}, object(t, regoTemplate), revised(t, regoConstraint, 1, "[team]", "team"))
			wantVerdict(t, s, create(pod), want.never)
			s = newSet(t, Options{OnError: mode}, object(t, regoTemplate), object(t, regoConstraint), revised(t, regoTemplate, 2, broken...))
			wantVerdict(t, s, create(pod), want.degraded)
			if got := states(s)[0]; got != "ConstraintTemplate/neededlabels "+want.template {
				t.Errorf("got %s, want %s", got, want.template)
			}
			s.Put(t.Context(), revised(t, regoTemplate, 3))
			wantVerdict(t, s, create(pod), teamIsNeeded)
			// A constraint without any template waits for it, and is on its way out where that was deleted.
			s.Delete(object(t, regoTemplate))
			wantVerdict(t, s, create(pod), "")
		})
	}
	// What was valid once and is not enforced now is rejected as well.
	s := newSet(t, Options{OnError: Reject})
	s.Sync([]schema.GroupVersionKind{podKind})
	s.Put(t.Context(), object(t, uniqueTemplate))
	s.Put(t.Context(), object(t, uniqueConstraint))
	wantVerdict(t, s, create(pod), "")
	s.Sync(nil)
	wantVerdict(t, s, create(pod), "policy UniqueImages/unique: "+errNotLoaded.Error())

	s = newSet(t, Options{OnError: Reject}, object(t, regoTemplate), object(t, regoConstraint))
	s.Delete(object(t, regoTemplate))
	s.Put(t.Context(), object(t, regoTemplate, broken...))
	wantVerdict(t, s, create(pod), "policy NeededLabels/team: "+errNotLoaded.Error())
	wantMessage(t, s, ID{"NeededLabels", "team"}, "requests that it would deny are rejected")

	s = newSet(t, Options{OnError: Reject}, object(t, regoTemplate), object(t, regoConstraint), revised(t, regoTemplate, 2, "labels: {type: array, items: {type: string}}", "labels: {type: string}"))
	wantStates(t, s, "ConstraintTemplate/neededlabels Active 2/2", "NeededLabels/team Error 0/1 InvalidConstraint")
	wantVerdict(t, s, create(pod), "policy NeededLabels/team: "+errNotLoaded.Error())

	s = newSet(t, Options{OnError: Reject}, object(t, regoTemplate), object(t, regoConstraint, "kinds: [{", "labelSelector: {matchExpressions: [{key: a, operator: Maybe}]}, kinds: [{"))
	wantVerdict(t, s, create(pod), "")
	wantMessage(t, s, ID{"NeededLabels", "team"}, "none of the requests that it matches is rejected")

	if _, err := New(Options{OnError: "Perhaps"}); err == nil {
		t.Error("New took a mode that there is not")
	}
}

// A template that was deleted and created again is another policy, whatever order the news come in.
func TestAnotherUID(t *testing.T) {
	s := newSet(t, Options{}, object(t, regoTemplate), object(t, regoConstraint))
	s.Put(t.Context(), revised(t, regoTemplate, 1, "uid: t1", "uid: t2", "package", "package {"))
	wantStates(t, s, "ConstraintTemplate/neededlabels Error 0/1 CompileFailed", "NeededLabels/team Error 0/1 NoTemplate")
	wantVerdict(t, s, create(pod), "")
	s.Delete(object(t, regoTemplate)) // the first one
	wantStates(t, s, "ConstraintTemplate/neededlabels Error 0/1 CompileFailed", "NeededLabels/team Error 0/1 NoTemplate")
	s.Put(t.Context(), revised(t, regoTemplate, 2, "uid: t1", "uid: t2"))
	wantVerdict(t, s, create(pod), teamIsNeeded)

	deleted := object(t, regoConstraint)
	deleted.Object["metadata"].(map[string]any)["deletionTimestamp"] = "2026-01-01T00:00:00Z"
	s.Put(t.Context(), deleted)
	wantStates(t, s, "ConstraintTemplate/neededlabels Active 2/2")
	wantVerdict(t, s, create(pod), "")
	s.Delete(object(t, regoTemplate, "uid: t1", "uid: ''"))
	wantStates(t, s)
	if n := len(s.entries); n > 0 {
		t.Errorf("%d entries are left of nothing", n)
	}
}

// At a start, a policy is not compiled for each of its constraints, and once reviews see it, it no longer changes.
func TestConstraintsAtAStart(t *testing.T) {
	s := newSet(t, Options{}, object(t, regoTemplate), object(t, regoConstraint))
	s.Put(t.Context(), object(t, regoConstraint, "name: team", "name: cost", "[team]", "[cost]", "[Pod]", "[Pod, Secret]"))
	s.Put(t.Context(), object(t, regoConstraint, "name: team", "name: bad", "[team]", "team"))
	s.Put(t.Context(), object(t, regoConstraint, "name: team", "name: app", "[team]", "[app]"))
	wantStates(t, s, "ConstraintTemplate/neededlabels Active 1/1", "NeededLabels/app Active 1/1", "NeededLabels/bad Error 0/1 InvalidConstraint", "NeededLabels/cost Active 1/1", "NeededLabels/team Active 1/1")
	if !s.Matches(schema.GroupVersionKind{Version: "v1", Kind: "Secret"}) {
		t.Error("the kinds of a constraint that was added are not matched")
	}
	wantVerdict(t, s, create(pod), "label app is needed; label cost is needed; label team is needed")
	seen := s.serving("neededlabels")
	s.Put(t.Context(), object(t, regoConstraint, "name: team", "name: last", "[team]", "[last]"))
	if s.serving("neededlabels").client == seen.client {
		t.Error("a policy that a review has seen was changed")
	}
	s = newSet(t, Options{}, object(t, regoTemplate), object(t, regoConstraint))
	first := s.serving("neededlabels")
	s.Put(t.Context(), object(t, regoConstraint, "name: team", "name: cost"))
	if s.serving("neededlabels").client != first.client {
		t.Error("a policy that no review has seen was compiled once more")
	}
}

// What this engine does not have is refused with a state.
func TestUnsupported(t *testing.T) {
	for _, text := range []string{
		"{apiVersion: expansion.gatekeeper.sh/v1beta1, kind: ExpansionTemplate, metadata: {name: x, generation: 1}}",
		"{apiVersion: mutations.gatekeeper.sh/v1, kind: Assign, metadata: {name: x, generation: 1}}",
		"{apiVersion: externaldata.gatekeeper.sh/v1beta1, kind: Provider, metadata: {name: x, generation: 1}}",
	} {
		obj := object(t, text)
		s := newSet(t, Options{}, obj)
		wantStates(t, s, obj.GetKind()+"/x Error 0/1 Unsupported")
		if err := s.Check(obj); err == nil {
			t.Errorf("Check took %s", obj.GetKind())
		}
		s.Delete(obj)
		wantStates(t, s)
	}
	external := []string{"not input.review.object.metadata.labels[label]", `external_data({"provider": "p", "keys": [label]})`}
	wantStates(t, newSet(t, Options{}, object(t, regoTemplate, external...)), "ConstraintTemplate/neededlabels Error 0/1 Unsupported")
}

// Each change of a state is told, and nothing else.
func TestChanged(t *testing.T) {
	told := 0
	s := newSet(t, Options{Changed: func() { told++ }})
	for i, step := range []struct {
		do   func()
		want int
	}{
		{func() { s.Put(t.Context(), object(t, regoConstraint)) }, 1},
		{func() { s.Put(t.Context(), object(t, regoTemplate)) }, 2},
		{func() { s.Put(t.Context(), object(t, regoTemplate)) }, 0},
		{func() { s.Put(t.Context(), revised(t, regoTemplate, 2)) }, 1},
		{func() { s.Delete(object(t, regoTemplate)) }, 2},
		{func() { s.Delete(object(t, regoTemplate)) }, 0},
	} {
		told = 0
		if step.do(); told != step.want {
			t.Errorf("step %d: got told of %d changes, want %d", i, told, step.want)
		}
	}
}

// While a policy is loaded, which may take long, reviews are answered, of that policy too, and states are told.
func TestReviewsGoOnWhileAPolicyLoads(t *testing.T) {
	store := &memory{held: make(chan struct{}), asked: make(chan struct{})}
	s := newSet(t, Options{Revisions: store}, object(t, regoTemplate), object(t, regoConstraint), object(t, celTemplate), object(t, celConstraint))
	other := object(t, regoConstraint, "name: team", "name: other", "[team]", "team") // is loaded together with team
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Put(t.Context(), other)
	}()
	<-store.asked
	wantVerdict(t, s, create(pod), teamIsNeeded+"; "+ownerIsNeeded)
	if n := len(s.States()); n != 4 {
		t.Errorf("got %d states, want 4", n)
	}
	s.Put(t.Context(), revised(t, celTemplate, 2)) // another policy
	if st, _ := s.State(ID{TemplateKind, "ownedpods"}); st.Enforced != 2 {
		t.Errorf("got %+v, want generation 2 enforced", st)
	}
	select {
	case <-done:
		t.Error("the policy was not held: the test shows nothing")
	default:
	}
	close(store.held)
	<-done
}

// A policy that panics fails alone, and takes neither later reviews nor data with it.
func TestPanic(t *testing.T) {
	pods := []schema.GroupVersionKind{{Version: "v1", Kind: "Pod"}}
	s := newSet(t, Options{}, object(t, celTemplate), object(t, celConstraint),
		object(t, regoTemplate, "not input.review.object.metadata.labels[label]", "test_panic(input.review.object.metadata.name)\n        count(data.inventory) >= 0"), object(t, regoConstraint))
	s.Sync(pods)
	bad := create(strings.Replace(pod, "web", "bad", 1))
	for range 3 {
		wantVerdict(t, s, bad, ownerIsNeeded+"; policy ConstraintTemplate/neededlabels: panic: a bug")
		if err := s.PutData(t.Context(), object(t, pod)); err != nil {
			t.Error(err)
		}
	}
	wantVerdict(t, s, create(pod), teamIsNeeded+"; "+ownerIsNeeded)
	wantStates(t, s, "ConstraintTemplate/neededlabels Active 1/1", "ConstraintTemplate/ownedpods Active 1/1", "NeededLabels/team Active 1/1", "OwnedPods/owned Active 1/1")
}

// A policy that does not decide in time is stopped, and is no violation.
func TestDeadline(t *testing.T) {
	s := newSet(t, Options{}, object(t, regoTemplate, "not input.review.object.metadata.labels[label]", "n := numbers.range(1, 100000)\n        n[i] + n[j] + n[k] < 0"), object(t, regoConstraint))
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	v := s.Review(ctx, create(pod)) // which would take years
	if len(v.Violations) > 0 || len(v.Failures) != 1 || !errors.Is(v.Failures[0], context.DeadlineExceeded) || v.Failures[0].ID != (ID{TemplateKind, "neededlabels"}) {
		t.Errorf("got %+v, want one failure of the template: deadline exceeded", v)
	}
}

// The policies behind a late one have time to decide.
func TestDeadlineIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := []string{"not input.review.object.metadata.labels[label]", "test_hang(label)"}
		s := newSet(t, Options{}, object(t, regoTemplate, hangs...), object(t, regoConstraint), object(t, celTemplate), object(t, celConstraint),
			object(t, regoTemplate, append(hangs, "neededlabels", "alsohangs", "NeededLabels", "AlsoHangs", "t1", "t9")...),
			object(t, regoConstraint, "NeededLabels", "AlsoHangs"))
		ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
		defer cancel()
		start := time.Now()
		v := s.Review(ctx, create(pod))
		if len(v.Violations) != 1 || v.Violations[0].Message != ownerIsNeeded || len(v.Failures) != 2 {
			t.Errorf("got %+v, want one violation and two failures", v)
		}
		for _, f := range v.Failures {
			if !errors.Is(f, context.DeadlineExceeded) {
				t.Errorf("got the failure %v, want that the deadline is exceeded", f)
			}
		}
		if took := time.Since(start); took != 6*time.Second {
			t.Errorf("got the verdict after %v, want a half of the time and a half of the rest", took)
		}
	})
}

// Actions are those that apply at the point of enforcement.
func TestScopedActions(t *testing.T) {
	scoped := `spec:
  enforcementAction: scoped
  scopedEnforcementActions:
  - {action: warn, enforcementPoints: [{name: validation.gatekeeper.sh}]}
  - {action: deny, enforcementPoints: [{name: validation.gatekeeper.sh}, {name: audit.gatekeeper.sh}]}
  - {action: explode, enforcementPoints: [{name: "*"}]}`
	s := newSet(t, Options{}, object(t, regoTemplate), object(t, regoConstraint, "spec:", scoped),
		object(t, regoConstraint, "name: team", "name: odd", "spec:", "spec:\n  enforcementAction: odd"))
	for point, want := range map[string]string{
		util.WebhookEnforcementPoint: "scoped[deny warn]",
		util.AuditEnforcementPoint:   "odd[] scoped[deny]", // Gatekeeper's audit counts actions that it does not know
		util.GatorEnforcementPoint:   "odd[] scoped[]",
	} {
		r := create(pod)
		r.Point = point
		var got []string
		for _, v := range s.Review(t.Context(), r).Violations {
			got = append(got, fmt.Sprint(v.Action, v.Actions))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: got %q, want %s", point, got, want)
		}
	}
}

// What a kind is spelled like is another member: Go's decoder reads the Kelvin sign as a k.
func TestKindIsReadExactly(t *testing.T) {
	s := newSet(t, Options{}, object(t, regoTemplate), object(t, regoConstraint))
	wantVerdict(t, s, create(strings.Replace(pod, `"spec"`, `"\u212Aind": "X", "Kind": "X", "spec"`, 1)), teamIsNeeded)
}

// A template's operations hold for the webhook alone.
func TestOperations(t *testing.T) {
	s := newSet(t, Options{}, object(t, regoTemplate, "rego: |", "operations: [UPDATE]\n    rego: |"), object(t, regoConstraint))
	wantVerdict(t, s, create(pod), "")
	update := create(pod)
	update.Admission.Operation = admissionv1.Update
	wantVerdict(t, s, update, teamIsNeeded)
	wantVerdict(t, s, Request{Object: object(t, pod), Point: util.AuditEnforcementPoint}, teamIsNeeded)
}

func TestMatches(t *testing.T) {
	s := newSet(t, Options{}, object(t, regoTemplate), object(t, regoConstraint))
	for kind, want := range map[string]bool{"Pod": true, "Secret": false} {
		if got := s.Matches(schema.GroupVersionKind{Version: "v1", Kind: kind}); got != want {
			t.Errorf("%s: got %v, want %v", kind, got, want)
		}
	}
	s.Put(t.Context(), object(t, regoConstraint, "name: team", "name: all", "match: {kinds: [{apiGroups: [\"\"], kinds: [Pod]}]}", "match: {}"))
	if !s.Matches(schema.GroupVersionKind{Group: "x", Version: "v1", Kind: "Any"}) {
		t.Error("a constraint without kinds matches all")
	}
}

func TestCheck(t *testing.T) {
	s := newSet(t, Options{})
	template, constraint := object(t, regoTemplate), object(t, regoConstraint)
	action := object(t, regoConstraint, "spec:", "spec:\n  enforcementAction: explode")
	check := func(name string, obj *unstructured.Unstructured, want string) {
		t.Helper()
		got := ""
		if p := (*problem)(nil); errors.As(s.Check(obj), &p) {
			got = p.reason + ": " + p.Error()
		}
		if !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	check("template", template, "")
	check("needs data", object(t, regoTemplate, "not input.review.object", "not data.inventory.cluster"), "")
	check("constraint alone", constraint, "NoTemplate: template neededlabels is not enforced")
	if n := len(s.States()); n > 0 {
		t.Errorf("Check left %d states behind", n)
	}
	s.Put(t.Context(), template)
	check("constraint", constraint, "")
	check("action", action, "InvalidConstraint: unrecognized enforcementAction")
}

func TestCRD(t *testing.T) {
	s := newSet(t, Options{})
	crd, err := s.CRD(object(t, regoTemplate))
	if err != nil {
		t.Fatal(err)
	}
	if crd.Name != "neededlabels.constraints.gatekeeper.sh" || crd.Spec.Names.Kind != "NeededLabels" || crd.Kind != "CustomResourceDefinition" || len(crd.Spec.Versions) == 0 ||
		crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties["parameters"].Properties["labels"].Type != "array" {
		t.Errorf("got %+v", crd)
	}
	kept := crd.DeepCopy()
	if _, err := s.CRD(object(t, celTemplate)); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(crd, kept) {
		t.Errorf("after the CRD of another template: got %+v, want %+v", crd, kept)
	}
	if _, err := s.CRD(object(t, regoTemplate, "kind: NeededLabels", "kind: Other")); err == nil {
		t.Error("got a CRD of an invalid template")
	}
}

func TestRecord(t *testing.T) {
	s := newSet(t, Options{}, object(t, regoTemplate), object(t, regoConstraint, "uid: c1", "uid: c1, annotations: {owner: me, "+lastApplied+": '{}'}"))
	v := s.Review(t.Context(), create(pod))
	if len(v.Violations) != 1 {
		t.Fatalf("got %+v", v)
	}
	r := v.Violations[0].Record()
	got := fmt.Sprint(r.Group, r.Version, r.Kind, r.Name, r.Template, r.Message, r.EnforcementAction, r.EnforcementActions, r.Decision, r.ConstraintAnnotations, string(r.Details))
	want := "constraints.gatekeeper.shv1beta1NeededLabelsteamneededlabelslabel team is neededdeny[]denymap[owner:me]{\"missing\":\"team\"}"
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if n := len(v.Violations[0].Constraint.GetAnnotations()); n != 2 {
		t.Errorf("Record changed the constraint, which has %d annotations", n)
	}
	for actions, want := range map[string]string{"warn deny": "deny", "warn dryrun": "warn", "dryrun": "dryrun"} {
		v := v.Violations[0]
		v.Action, v.Actions = "scoped", strings.Fields(actions)
		if r := v.Record(); string(r.Decision) != want || !slices.Equal(r.EnforcementActions, v.Actions) {
			t.Errorf("%s: got %s and %q, want %s", actions, r.Decision, r.EnforcementActions, want)
		}
	}
}
