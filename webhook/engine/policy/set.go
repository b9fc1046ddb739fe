package policy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/open-policy-agent/frameworks/constraint/pkg/apis"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
)

// Set holds every policy. All of its methods may be called at the same time.
//
// Reviews read one pointer and take no lock of the Set, so that they go on whatever is compiled, stored or waited for.
type Set struct {
	opt    Options
	target *k8sTarget // shared by all policies: it holds nothing
	scheme *runtime.Scheme
	served atomic.Pointer[[]*snapshot] // sorted by name; replaced with mu held
	data   inventory

	mu      sync.Mutex // guards what follows; held for moments
	entries map[string]*entry
	states  map[ID]State

	todo workqueue.TypedRateLimitingInterface[task] // of Run
}

// entry is a template and its constraints.
type entry struct {
	name        string     // the template's: its constraints' kind in lower case
	mu          sync.Mutex // held while the policy is compiled, and while its last revision is asked for
	template    tracked
	constraints map[string]*tracked
	refers      bool // to data
	again       bool // to be loaded once more
	gone        bool // from the Set: nothing was left in it
}

// tracked is a template or a constraint.
type tracked struct {
	newest *unstructured.Unstructured // nil: there is none
	valid  *unstructured.Unstructured // its last revision that was valid, of the same UID
}

// valid returns the last valid revision of an object of e, or nil. The caller holds e.mu.
func (e *entry) valid(id ID) *unstructured.Unstructured {
	if id.Kind == TemplateKind {
		return e.template.valid
	}
	if t := e.constraints[id.Name]; t != nil {
		return t.valid
	}
	return nil
}

func (t *tracked) put(obj *unstructured.Unstructured) {
	if t.newest == nil || t.newest.GetUID() != obj.GetUID() {
		t.valid = nil // of another policy that had this name
	}
	t.newest = obj
}

// New returns a Set without policies.
func New(opt Options) (*Set, error) {
	switch opt.OnError {
	case "":
		opt.OnError = KeepLast
	case KeepLast, Reject, Ignore:
	default:
		return nil, fmt.Errorf("on policy error %q: want %s, %s or %s", opt.OnError, KeepLast, Reject, Ignore)
	}
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	if opt.Changed == nil {
		opt.Changed = func() {}
	}
	s := &Set{
		opt: opt, target: &k8sTarget{}, scheme: runtime.NewScheme(),
		entries: map[string]*entry{}, states: map[ID]State{}, todo: newTasks(),
	}
	s.served.Store(&[]*snapshot{})
	if err := apis.AddToScheme(s.scheme); err != nil {
		return nil, fmt.Errorf("policies: %w", err)
	}
	return s, nil
}

func idOf(obj *unstructured.Unstructured) ID { return ID{obj.GetKind(), obj.GetName()} }

func isTemplate(obj *unstructured.Unstructured) bool {
	return obj.GroupVersionKind().Group == TemplatesGroup && obj.GetKind() == TemplateKind
}

func isConstraint(obj *unstructured.Unstructured) bool {
	return obj.GroupVersionKind().Group == ConstraintsGroup
}

func unsupported(obj *unstructured.Unstructured) error {
	return &problem{Unsupported, fmt.Errorf("this engine has no %s", obj.GroupVersionKind().GroupKind())}
}

// templateName is the name of obj, a template, or of the template of obj, a constraint.
func templateName(obj *unstructured.Unstructured) string {
	if isTemplate(obj) {
		return obj.GetName()
	}
	return strings.ToLower(obj.GetKind())
}

// entryOf returns the entry that obj belongs to, locked.
func (s *Set) entryOf(obj *unstructured.Unstructured) *entry {
	name := templateName(obj)
	for {
		s.mu.Lock()
		e := s.entries[name]
		if e == nil {
			e = &entry{name: name, constraints: map[string]*tracked{}}
			s.entries[name] = e
		}
		s.mu.Unlock()
		e.mu.Lock()
		if !e.gone {
			return e
		}
		e.mu.Unlock()
	}
}

// Put takes the newest revision of a template or a constraint and, before it returns, puts it into force. What became of
// it is told by State. The Set keeps obj, so do not change it afterwards. One that is being deleted is deleted.
func (s *Set) Put(ctx context.Context, obj *unstructured.Unstructured) {
	switch {
	case obj.GetDeletionTimestamp() != nil:
		s.Delete(obj)
	case isTemplate(obj), isConstraint(obj):
		e := s.entryOf(obj)
		t, first := &e.template, false
		if isConstraint(obj) {
			if t = e.constraints[obj.GetName()]; t == nil {
				t, first = &tracked{}, true
				e.constraints[obj.GetName()] = t
			}
		}
		t.put(obj)
		if !s.extend(ctx, e, t, first) {
			s.load(ctx, e)
		}
		e.mu.Unlock()
	default:
		s.setState(obj, nil, unsupported(obj))
	}
}

// Delete forgets a template or a constraint. One of the same name with another UID stays; no UID means any.
func (s *Set) Delete(obj *unstructured.Unstructured) {
	id := idOf(obj)
	if st, ok := s.State(id); !ok || obj.GetUID() != "" && st.UID != "" && obj.GetUID() != st.UID {
		return
	}
	if !isTemplate(obj) && !isConstraint(obj) {
		s.forget(id, nil)
		return
	}
	e := s.entryOf(obj)
	defer e.mu.Unlock()
	if isTemplate(obj) {
		e.template = tracked{}
	} else {
		delete(e.constraints, obj.GetName())
	}
	s.load(context.Background(), e)
	e.gone = e.template.newest == nil && len(e.constraints) == 0
	s.forget(id, e)
}

// forget drops what is noted of an object, and of its entry where that is gone.
func (s *Set) forget(id ID, e *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.states, id)
	s.opt.Changed()
	if e == nil {
		return
	}
	s.todo.Forget(task{e.name, id})
	if e.gone {
		delete(s.entries, e.name)
		s.todo.Forget(task{entry: e.name})
	}
}

// setState notes the state of an object.
func (s *Set) setState(newest, enforced *unstructured.Unstructured, err error) {
	next := State{ID: idOf(newest), UID: newest.GetUID(), Phase: Active, Observed: newest.GetGeneration()}
	if enforced != nil {
		next.Enforced = enforced.GetGeneration()
	}
	if err != nil {
		next.Phase, next.Message = Error, err.Error()
		if enforced != nil {
			next.Phase = Degraded
		}
		var p *problem
		if errors.As(err, &p) {
			next.Reason = p.reason
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.states[next.ID]
	next.Since = last.Since
	if last == next {
		return
	}
	next.Since = time.Now()
	s.states[next.ID] = next
	s.opt.Changed()
	if err != nil {
		s.opt.Log.Error("newest revision of a policy is not enforced", "policy", next.String(), "phase", next.Phase, "reason", next.Reason,
			"observed", next.Observed, "enforced", next.Enforced, "error", err)
	} else if last.Phase != Active {
		s.opt.Log.Info("newest revision of a policy is enforced", "policy", next.String(), "generation", next.Enforced)
	}
}

// State returns the state of a template or a constraint, or of another object that is not supported.
func (s *Set) State(id ID) (State, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st, ok := s.states[id]
	return st, ok
}

// States returns all of them, sorted by kind and name.
func (s *Set) States() []State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Values(s.states), func(a, b State) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
}

// Matches says whether a constraint that is enforced may match objects of a kind.
func (s *Set) Matches(gvk schema.GroupVersionKind) bool {
	return slices.ContainsFunc(*s.served.Load(), func(p *snapshot) bool { return p.mayMatch(gvk.GroupKind()) })
}
