package audit

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"
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
