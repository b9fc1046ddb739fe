package policy

import (
	"context"
	"time"

	"k8s.io/client-go/util/workqueue"
)

// task is what Run still has to do: to load a policy once more, or to keep the valid revision of one of its objects.
type task struct {
	entry string
	keep  ID // empty: load
}

// newTasks returns a queue of tasks. One that fails is due again after a pause, which grows.
func newTasks() workqueue.TypedRateLimitingInterface[task] {
	return workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[task](time.Second, 5*time.Minute))
}

// Run loads again what could not be loaded, and has valid revisions kept, with backoff, until ctx is done.
func (s *Set) Run(ctx context.Context) error {
	defer context.AfterFunc(ctx, s.todo.ShutDown)()
	for {
		t, ended := s.todo.Get()
		if ended || ctx.Err() != nil {
			return nil
		}
		if t.keep == (ID{}) {
			s.reload(ctx, t.entry, func(e *entry) bool { return e.again })
		} else if s.keep(ctx, t) {
			s.todo.Forget(t)
		} else {
			s.todo.AddRateLimited(t)
		}
		s.todo.Done(t)
	}
}

// lock returns an entry, locked, or nil.
func (s *Set) lock(name string) *entry {
	s.mu.Lock()
	e := s.entries[name]
	s.mu.Unlock()
	if e != nil {
		e.mu.Lock()
	}
	return e
}

// reload loads a policy once more if it is still to be.
func (s *Set) reload(ctx context.Context, name string, still func(*entry) bool) {
	e := s.lock(name)
	if e == nil {
		return
	}
	defer e.mu.Unlock()
	if !e.gone && still(e) {
		s.load(ctx, e)
	}
}

// keep hands the valid revision of an object to Revisions, as far as there still is one. It returns whether that is done.
func (s *Set) keep(ctx context.Context, t task) bool {
	e := s.lock(t.entry)
	if e == nil {
		return true
	}
	obj := e.valid(t.keep)
	e.mu.Unlock()
	if obj == nil {
		return true
	}
	err := s.opt.Revisions.Keep(ctx, obj)
	if err != nil {
		s.opt.Log.Error("valid revision of a policy is not kept", "policy", t.keep.String(), "generation", obj.GetGeneration(), "error", err)
	}
	return err == nil
}
