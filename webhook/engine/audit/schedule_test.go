package audit

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/docket-export/docket/decision"
	"github.com/docket-export/docket/webhook/engine/policy"
)

// Runs begin an interval after one another, or at once behind one that took longer.
func TestScheduleStarts(t *testing.T) {
	took := []time.Duration{time.Second, 10 * time.Second, 70 * time.Second, 200 * time.Second, 0, 0}
	want := []string{"00:00:00", "00:01:00", "00:02:00", "00:03:10", "00:06:30", "00:07:30"}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var ids []string
		var previous []*uint64
		c := newCluster(1, 1)
		c.before = func(call string) error {
			if call == "kinds" {
				time.Sleep(took[len(ids)])
			}
			if call == "Pod 0" && len(ids) == 1 {
				return errForbidden // a run that is not complete
			}
			return nil
		}
		s := &Schedule{Config: Config{Lister: c, Policies: &policies{}}, Interval: time.Minute, Ended: func(r Report, err error) {
			if err != nil {
				t.Error(err)
			}
			ids, previous = append(ids, r.ID[len("2000-01-01T"):len(r.ID)-1]), append(previous, r.Previous)
			if len(ids) == len(took) {
				cancel()
			}
		}}
		if err := s.Run(ctx); err != nil {
			t.Error(err)
		}
		if !slices.Equal(ids, want) {
			t.Errorf("got runs at %v, want %v", ids, want)
		}
		if previous[0] != nil || *previous[1] != 2 || *previous[2] != 2 {
			t.Errorf("got the previous counts %v, want those of the last complete run", previous)
		}
	})
}

func TestScheduleInterval(t *testing.T) {
	err := (&Schedule{Interval: time.Millisecond}).Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "at least 1s") {
		t.Errorf("got %v, want the interval refused: two runs would have one id", err)
	}
}

// lost is a Lease that a pod gets, and cannot renew while down.
type lost struct {
	record *resourcelock.LeaderElectionRecord
	down   atomic.Bool
}

func (l *lost) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if l.down.Load() {
		return nil, nil, errors.New("down")
	}
	copied := *l.record
	return &copied, []byte(l.record.RenewTime.String()), nil
}
func (l *lost) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.Update(ctx, r)
}
func (l *lost) Update(_ context.Context, r resourcelock.LeaderElectionRecord) error {
	if l.down.Load() {
		return errors.New("down")
	}
	l.record = &r
	return nil
}
func (l *lost) RecordEvent(string) {}
func (l *lost) Identity() string   { return "pod-0" }
func (l *lost) Describe() string   { return "default/audit" }

// A run that loses the Lease ends in time, says so, and the next one waits for the Lease.
func TestLeaseLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDocket(t)
		ctx, cancel := context.WithCancel(t.Context())
		l := &lost{record: &resourcelock.LeaderElectionRecord{}}
		var reports []Report
		var ended time.Duration
		began := time.Now()
		s := &Schedule{
			Config: Config{Lister: newCluster(pages, pageSize), Client: d.client, Policies: &policies{review: func(ctx context.Context, r policy.Request) *policy.Verdict {
				if len(reports) == 0 && r.Object.GetKind() == "Pod" { // each takes as long as it may
					if !l.down.Load() {
						l.down.Store(true)
						time.AfterFunc(time.Minute, func() { l.down.Store(false) })
					}
					<-ctx.Done()
				}
				return nil
			}}},
			Interval: time.Minute, Lease: l, Ended: func(r Report, err error) {
				if err != nil {
					t.Error(err)
				}
				if reports = append(reports, r); len(reports) == 1 {
					ended = time.Since(began)
				} else {
					cancel()
				}
			},
		}
		if err := s.Run(ctx); err != nil {
			t.Error(err)
		}
		_, runs := d.stop(t)
		if len(runs) != 2 || runs[0].Reason != decision.Abandoned || !strings.Contains(runs[0].Detail, "the Lease was lost") || !runs[1].Complete {
			t.Errorf("got the runs %+v", runs)
		}
		if ended > 15*time.Second {
			t.Errorf("the run ended after %v, want it to end before another pod may begin", ended)
		}
	})
}
