package crashdisk

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/internal/disk"
)

// Trial is an action that must survive a power cut at every operation.
type Trial struct {
	Prepare func(disk.FS) error // nil: nothing
	Do      func(disk.FS) error
	// Check looks at what the power cut has left. did says that Do has returned nil.
	Check func(fsys disk.FS, did bool) error
	// Seeds is how many outcomes of a power cut are tried at each operation; 0: 20.
	Seeds uint64
}

const trialSeeds = 20

// Run kills the process at each operation of Do, and in a second pass makes each operation
// fail that changes something. After each it cuts the power and calls Check. It returns the
// first error.
func (t Trial) Run() error {
	for _, how := range []error{ErrKilled, unix.EIO} {
		for n, more := 1, true; more; n++ {
			for seed := range cmp.Or(t.Seeds, trialSeeds) {
				reached, last, err := t.at(n, how, seed)
				if err != nil {
					return fmt.Errorf("%w at operation %d (%s), then a power cut with seed %d: %w", how, n, last, seed, err)
				}
				more = reached
			}
		}
	}
	return nil
}

func (t Trial) at(n int, how error, seed uint64) (reached bool, last string, err error) {
	d := New(rand.New(rand.NewPCG(seed, 1)))
	boot := func() *Steps {
		d.Boot()
		s := &Steps{}
		s.Boot(d.Process(), func() {})
		return s
	}
	steps := boot()
	if t.Prepare != nil {
		if err := t.Prepare(steps); err != nil {
			return false, "", fmt.Errorf("prepare: %w", err)
		}
	}
	steps.SetPlan(func(at int, op, _ string) Fault {
		if at != n {
			return Fault{}
		}
		reached = true
		if IsReading(op) && !errors.Is(how, ErrKilled) {
			return Fault{}
		}
		return Fault{Err: how}
	})
	did := t.Do(steps)
	if steps.LastFailed() == "" && did != nil {
		return false, "", fmt.Errorf("nothing failed: %w", did)
	}
	d.Kill()
	if again := d.Breaches(); len(again) > 0 {
		return reached, steps.LastFailed(), fmt.Errorf("synced again after a failed sync: %v", again)
	}
	d.PowerCut()
	return reached, steps.LastFailed(), t.Check(boot(), did == nil)
}
