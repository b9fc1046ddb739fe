package delta

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/internal/disk/crashdisk"
)

// A run whose commit was told stands after a power cut, and so does the one before until
// then.
func TestCommitOutlivesAPowerCut(t *testing.T) {
	run := func(id string, numbers ...int) func(disk.FS) error {
		return func(fsys disk.FS) error {
			tracker, err := Open(disk.On(fsys, "/queue").Join("sources", "gk", "state.json"), time.Hour)
			if err != nil {
				return err
			}
			r := tracker.Begin(id)
			for _, l := range lines(id, numbers...) {
				if _, _, err := r.Observe(nil, l); err != nil {
					return err
				}
			}
			if _, err := r.End(true, func([]byte, int) error { return nil }); err != nil {
				return err
			}
			return r.Commit()
		}
	}
	err := crashdisk.Trial{
		Prepare: run(runID(0), 1, 2), Do: run(runID(1), 2, 3, 4),
		Check: func(fsys disk.FS, did bool) error {
			tracker, err := Open(disk.On(fsys, "/queue").Join("sources", "gk", "state.json"), time.Hour)
			if err != nil {
				return err
			}
			if got := len(tracker.standing); got != 3 && (did || got != 2) {
				return fmt.Errorf("got %d violations that stand", got)
			}
			names, err := disk.On(fsys, "/queue").Join("sources", "gk").List()
			if damaged := slices.ContainsFunc(names, func(n string) bool { return n == "state.json.damaged" }); damaged {
				err = fmt.Errorf("got %v", names)
			}
			return err
		},
	}.Run()
	if err != nil {
		t.Error(err)
	}
}
