package lease

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// object is the Lease that pods share.
type object struct {
	mu     sync.Mutex
	record *resourcelock.LeaderElectionRecord
	// version is that of record: an update of another is a conflict.
	version int
}

// pod is what one pod sees of it.
type pod struct {
	*object
	name string
	seen int   // version
	down error // what its requests end with
}

var resource = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}

func (p *pod) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down != nil {
		return nil, nil, p.down
	}
	if p.record == nil {
		return nil, nil, apierrors.NewNotFound(resource, "audit")
	}
	p.seen = p.version
	raw, err := json.Marshal(p.record)
	copied := *p.record
	return &copied, raw, err
}

func (p *pod) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return p.write(ctx, r, 0)
}
func (p *pod) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return p.write(ctx, r, p.seen)
}

func (p *pod) write(_ context.Context, r resourcelock.LeaderElectionRecord, of int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down != nil {
		return p.down
	}
	if of != p.version {
		return apierrors.NewConflict(resource, "audit", errors.New("changed meanwhile"))
	}
	p.record = &r
	p.version++
	p.seen = p.version
	return nil
}

func (p *pod) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = err
}

func (p *pod) RecordEvent(string) {}
func (p *pod) Identity() string   { return p.name }
func (p *pod) Describe() string   { return "default/audit" }

func (p *pod) hold(ctx context.Context, t *testing.T, do func(context.Context)) {
	t.Helper()
	if err := Hold(ctx, p, do); err != nil {
		t.Errorf("pod %s: %v", p.name, err)
	}
}

// Of three pods one holds the Lease, and the next one gets it when that has ended, however
// long that takes, and at once.
func TestOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var holders sync.WaitGroup
		shared, active, terms := &object{}, 0, make(chan context.CancelFunc)
		for _, name := range []string{"a", "b", "c"} {
			ctx, stop := context.WithCancel(t.Context())
			holders.Go(func() {
				(&pod{object: shared, name: name}).hold(ctx, t, func(ctx context.Context) {
					if active++; active != 1 {
						t.Errorf("%d pods hold the Lease", active)
					}
					terms <- stop
					<-ctx.Done()
					time.Sleep(time.Minute) // what takes long to end
					active--
				})
			})
		}
		for range 3 {
			stop := <-terms
			stopped := time.Now()
			stop()
			defer func() {
				if took := time.Since(stopped); took < time.Minute {
					t.Errorf("the last pod ended after %v", took)
				}
			}()
		}
		holders.Wait()
	})
}

// A pod that cannot renew its Lease ends before another pod begins, and stands by again.
func TestLost(t *testing.T) {
	for tenths := range 40 { // between two renewals
		synctest.Test(t, func(t *testing.T) { testLost(t, time.Minute+time.Duration(tenths)*time.Second/10) })
	}
}

func testLost(t *testing.T, after time.Duration) {
	shared := &object{}
	first, second := &pod{object: shared, name: "first"}, &pod{object: shared, name: "second"}
	ctx, stop := context.WithCancel(t.Context())
	var holders sync.WaitGroup
	terms, lost := make(chan time.Time), make(chan time.Time, 1)
	holders.Go(func() {
		first.hold(ctx, t, func(held context.Context) {
			terms <- time.Now()
			<-held.Done()
			if ctx.Err() == nil {
				if cause := context.Cause(held); !errors.Is(cause, ErrLost) {
					t.Errorf("got %v, want the cause %v", cause, ErrLost)
				}
				lost <- time.Now()
			}
		})
	})
	<-terms
	standby, yield := context.WithCancel(ctx)
	began := make(chan time.Time)
	holders.Go(func() {
		second.hold(standby, t, func(held context.Context) {
			began <- time.Now()
			<-held.Done()
		})
	})
	time.Sleep(after)
	first.fail(errors.New("the API server is down"))
	if gap := (<-began).Sub(<-lost); gap < Grace {
		t.Errorf("the second pod began %v after the first had lost the Lease, want at least %v", gap, Grace)
	}
	first.fail(nil)
	yield()
	<-terms
	stop()
	holders.Wait()
}

// A pod that waits for the Lease stops when it is told to.
func TestStopsWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := &object{record: &resourcelock.LeaderElectionRecord{HolderIdentity: "another", LeaseDurationSeconds: 3600}, version: 1}
		ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
		defer stop()
		(&pod{object: shared, name: "a"}).hold(ctx, t, func(context.Context) { t.Error("it holds another pod's Lease") })
	})
}

func TestNew(t *testing.T) {
	var asked []string
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.Path+" "+r.UserAgent())
		http.NotFound(w, r)
	}))
	defer api.Close()
	config := &rest.Config{Host: api.URL, UserAgent: "docket-webhook/v1"}
	lease, err := New(config, "docket", "audit", "pod-0")
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = lease.Get(t.Context())
	if !apierrors.IsNotFound(err) || lease.Identity() != "pod-0" {
		t.Errorf("got %v for %s", err, lease.Identity())
	}
	if len(asked) != 1 || asked[0] != "GET /apis/coordination.k8s.io/v1/namespaces/docket/leases/audit docket-webhook/v1/lease" {
		t.Errorf("got the requests %q", asked)
	}
	if config.UserAgent != "docket-webhook/v1" || config.Timeout != 0 {
		t.Errorf("the caller's configuration was changed: %+v", config)
	}
	if _, err := New(&rest.Config{Host: "://"}, "docket", "audit", "pod-0"); err == nil {
		t.Error("got no error for a host that is none")
	}
}
