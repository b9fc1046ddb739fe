package policy

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// task is what Run still has to do: to load a policy once more, or to keep the valid revision of one of its objects.
type task struct {
	entry string
	keep  ID // empty: load
}

type attempt struct {
	*backoff.ExponentialBackOff
	at     time.Time
	logged string // the failure that was logged last
}

// now has Run do a task at once.
func (s *Set) now(t task) { s.plan(t, func(*attempt) time.Duration { return 0 }) }

// later has Run do a task after a pause, which grows.
func (s *Set) later(t task) { s.plan(t, func(a *attempt) time.Duration { return a.NextBackOff() }) }

func (s *Set) plan(t task, pause func(*attempt) time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.todo[t]
	if a == nil {
		a = &attempt{ExponentialBackOff: backoff.NewExponentialBackOff()}
		a.InitialInterval, a.MaxInterval = time.Second, 5*time.Minute
		a.Reset()
		s.todo[t] = a
	}
	a.at = time.Now().Add(pause(a))
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// done ends a task.
func (s *Set) done(t task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.todo, t)
}

func (s *Set) planned(t task) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.todo[t] != nil
}

// Run loads again what could not be loaded, and has valid revisions kept, with backoff, until ctx is done.
func (s *Set) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		t, wait := s.next()
		if wait > 0 {
			timer := time.NewTimer(wait)
			select {
			case <-ctx.Done():
			case <-s.wake:
			case <-timer.C:
			}
			timer.Stop()
			continue
		}
		if t.keep == (ID{}) {
			s.reload(ctx, t.entry, func(*entry) bool { return s.planned(t) })
		} else {
			s.keep(ctx, t)
		}
	}
	return nil
}

// next returns the task whose time has come first, and how long that still takes.
func (s *Set) next() (due task, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	wait = time.Hour
	for t, a := range s.todo {
		if d := time.Until(a.at); d < wait {
			due, wait = t, d
		}
	}
	return due, wait
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
	var changed []ID
	if !e.gone && still(e) {
		changed = s.load(ctx, e)
	}
	e.mu.Unlock()
	s.notify(changed)
}

// keep hands the valid revision of an object to Revisions, as far as there still is one.
func (s *Set) keep(ctx context.Context, t task) {
	e := s.lock(t.entry)
	if e == nil {
		s.done(t)
		return
	}
	obj := e.valid(t.keep)
	e.mu.Unlock()
	if obj != nil {
		if err := s.opt.Revisions.Keep(ctx, obj); err != nil {
			if s.news(t, err.Error()) {
				s.opt.Log.Error("valid revision of a policy is not kept", "policy", t.keep.String(), "generation", obj.GetGeneration(), "error", err)
			}
			s.later(t)
			return
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.valid(t.keep) == obj { // else the next one is planned already
		s.done(t)
	}
}

// news says whether a task failed in another way the last time.
func (s *Set) news(t task, text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.todo[t]
	if a == nil || a.logged == text {
		return false
	}
	a.logged = text
	return true
}
