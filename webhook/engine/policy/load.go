package policy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// problem is why a revision is not enforced.
type problem struct {
	reason string
	err    error
}

func (p *problem) Error() string { return p.err.Error() }
func (p *problem) Unwrap() error { return p.err }

// extend adds a constraint to a policy that no review has seen, as at a start: to compile the policy anew for each of some
// hundred constraints takes a minute. The caller holds e.mu.
func (s *Set) extend(ctx context.Context, e *entry, t *tracked, first bool) bool {
	last := s.serving(e.name)
	if !first || last == nil || last.client == nil || last.seen.Load() || last.rejects != nil {
		return false
	}
	next := *last
	next.kinds = slices.Clone(last.kinds)
	if contained(func() error { return next.add(ctx, t.newest) }) != nil {
		return false
	}
	s.accept(t)
	s.serve(ctx, &next)
	s.setState(t.newest, t.newest, nil)
	return true
}

// serving returns what is served of a policy, or nil.
func (s *Set) serving(name string) *snapshot {
	for _, p := range *s.served.Load() {
		if p.name == name {
			return p
		}
	}
	return nil
}

// load compiles what is enforced of a policy, and serves it. The caller holds e.mu.
func (s *Set) load(ctx context.Context, e *entry) {
	next := &snapshot{name: e.name, seen: new(atomic.Bool)}
	retry := false
	var outcomes []func() // a state says only what reviews have
	note := func(t *tracked, enforced *unstructured.Unstructured, err error) {
		var p *problem
		if errors.As(err, &p) {
			retry = retry || p.reason == CompileFailed || p.reason == InvalidConstraint
		}
		outcomes = append(outcomes, func() { s.setState(t.newest, enforced, err) })
	}
	if t := &e.template; t.newest != nil {
		enforced, err := s.choose(ctx, t, func(obj *unstructured.Unstructured) error { return s.compile(ctx, next, obj, false) })
		note(t, enforced, err)
	}
	for _, name := range slices.Sorted(maps.Keys(e.constraints)) {
		t := e.constraints[name]
		enforced, err := s.choose(ctx, t, func(obj *unstructured.Unstructured) error { return next.add(ctx, obj) })
		if enforced == nil && s.opt.OnError == Reject && e.template.newest != nil {
			err = s.reject(ctx, next, t.newest, err)
		}
		note(t, enforced, err)
	}
	e.refers, e.again = next.refers, retry
	s.serve(ctx, next)
	for _, outcome := range outcomes {
		outcome()
	}
	if again := (task{entry: e.name}); retry {
		s.todo.AddRateLimited(again)
	} else {
		s.todo.Forget(again)
	}
}

// accept notes that the newest revision of an object is valid, and has it kept.
func (s *Set) accept(t *tracked) {
	t.valid = t.newest
	if s.opt.Revisions != nil {
		s.todo.Add(task{templateName(t.newest), idOf(t.newest)})
	}
}

// choose tries the newest revision and, where that fails, the last valid one. It returns the one that is enforced, nil for
// none, and why the newest is not.
func (s *Set) choose(ctx context.Context, t *tracked, try func(*unstructured.Unstructured) error) (*unstructured.Unstructured, error) {
	err := contained(func() error { return try(t.newest) })
	if err == nil {
		if t.valid != t.newest {
			s.accept(t)
		}
		return t.newest, nil
	}
	var p *problem // which every try returns
	if !errors.As(err, &p) || p.reason == NoTemplate || s.opt.OnError == Ignore {
		return nil, err
	}
	if t.valid == nil && s.opt.Revisions != nil {
		last, other := s.opt.Revisions.Last(ctx, idOf(t.newest), t.newest.GetUID())
		if other != nil {
			return nil, &problem{p.reason, fmt.Errorf("%w; its last valid revision could not be read: %w", err, other)}
		}
		t.valid = last
	}
	if t.valid == nil || t.valid == t.newest {
		return nil, err
	}
	if other := contained(func() error { return try(t.valid) }); other != nil {
		return nil, &problem{p.reason, fmt.Errorf("%w; nor can its last valid revision, generation %d, be loaded: %w", err, t.valid.GetGeneration(), other)}
	}
	return t.valid, err
}

// contained calls f, whose panic is an error: a policy is other people's code.
func contained(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &problem{CompileFailed, fmt.Errorf("panic: %v", r)}
		}
	}()
	return f()
}

// serve replaces what reviews see of a policy.
func (s *Set) serve(ctx context.Context, next *snapshot) {
	s.data.use(ctx, next)
	s.mu.Lock()
	defer s.mu.Unlock()
	served := slices.DeleteFunc(slices.Clone(*s.served.Load()), func(p *snapshot) bool { return p.name == next.name })
	if next.client != nil || next.rejects != nil {
		served = append(served, next)
		slices.SortFunc(served, func(a, b *snapshot) int { return cmp.Compare(a.name, b.name) })
	}
	s.served.Store(&served)
}
