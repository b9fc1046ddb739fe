package deadletter

import (
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/internal/disk/crashdisk"
)

// testDisk is a crash disk whose operations that change something are counted. One can
// fail, or kill the process.
type testDisk struct {
	*crashdisk.Disk
	dice  *rand.Rand
	steps crashdisk.Steps

	operations int            // of this process
	killAt     int            // the process is killed at this one; 0: never
	seen       map[string]int // operations by their kind
	// fails returns the failure of an operation. nil: there are none.
	fails func(op int, kind string) error
}

func newTestDisk(dice *rand.Rand) *testDisk {
	d := &testDisk{Disk: crashdisk.New(dice), dice: dice, seen: map[string]int{}}
	d.SetSector(64) // smaller than a line, so that a power cut leaves parts of one
	d.restart()
	return d
}

// restart ends the process, if it has not been killed, and begins the next.
func (d *testDisk) restart() {
	d.operations, d.killAt, d.fails = 0, 0, nil
	d.Boot()
	d.steps.Boot(d.Process(), func() {})
	d.steps.SetPlan(d.plan)
}

func (d *testDisk) plan(_ int, op, name string) crashdisk.Fault {
	if crashdisk.IsReading(op) {
		return crashdisk.Fault{}
	}
	d.operations++
	if op != "remove" || filepath.Base(name) == logFile { // of what a log is written to first there is always one
		d.seen[op]++
	}
	if d.operations == d.killAt {
		return crashdisk.Fault{Err: crashdisk.ErrKilled, Done: d.dice.Float64()}
	}
	if d.fails == nil {
		return crashdisk.Fault{}
	}
	return crashdisk.Fault{Err: d.fails(d.operations, op), Done: d.dice.Float64()}
}

var testDir = disk.At("/queue").Join("deadletters", "siem").String()

// place is the directory of the store.
func (d *testDisk) place() disk.Path { return disk.On(&d.steps, "/queue").Join("deadletters", "siem") }

// files returns the names of the files whose name begins with prefix.
func (d *testDisk) files(prefix string) []string {
	return slices.DeleteFunc(d.Names(), func(name string) bool { return !strings.HasPrefix(filepath.Base(name), prefix) })
}

var faults = []error{unix.EIO, unix.ENOSPC}
