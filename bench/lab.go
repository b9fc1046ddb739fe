package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/bench/load"
	"github.com/docket-export/docket/bench/process"
	"github.com/docket-export/docket/bench/record"
	"github.com/docket-export/docket/bench/site"
	"github.com/docket-export/docket/bench/trial"
)

// onceWait bounds one run of one experiment, whatever hangs.
const onceWait = 6 * time.Minute

// lab is where experiments are done, with the programs that they need.
type lab struct {
	*site.Site
	*trial.T          // the experiment that runs
	experiment string // its name

	records  int    // in each measurement under load
	docket   string // the binary under test
	profiles string // directory for profiles of docket; empty: none
}

// newLab makes a lab that is ready to measure.
func newLab(t *trial.T, o options) *lab {
	l := &lab{Site: site.New(t, o.Dir), T: t, profiles: o.profile, records: o.Records}
	l.findDocket(o.docket)
	l.Warm(2 * max(l.records, burstRecords) * record.Bytes) // more than any measurement writes
	return l
}

// findDocket takes the binary that was named, or builds one.
func (l *lab) findDocket(binary string) {
	if binary == "" {
		l.docket = filepath.Join(l.Short, "docket")
		site.Build(l.T, l.Root, l.docket)
		return
	}
	l.docket = trial.Must(filepath.Abs(binary))
	if _, err := exec.LookPath(l.docket); err != nil {
		trial.Check(fmt.Errorf("-docket: %w", err))
	}
}

// check says why e cannot be measured, and makes what it needs.
func (l *lab) check(e *experiment) {
	l.Part(e.Name, 0, func(t *trial.T) {
		if e.Large {
			l.in(t).checkRoom()
		}
		if e.Kafka {
			l.in(t).fetchKafka()
		}
		if e.Gatekeeper {
			l.in(t).checkGatekeeper()
		}
		if check := checks[e.Name]; check != nil {
			check(l.in(t))
		}
	})
}

// in is the lab in which t is measured.
func (l *lab) in(t *trial.T) *lab {
	at := *l
	at.T = t
	return &at
}

// unsynced is docket, built with the tag nosync, which syncs nothing.
func (l *lab) unsynced() string { return filepath.Join(l.Short, "docket-nosync") }

func (l *lab) buildUnsynced() {
	binary := l.unsynced()
	site.Build(l.T, l.Root, binary, "-tags", "nosync")
	said := process.Output(l.T, "", binary, "version")
	if !strings.Contains(said, "UNSAFE") {
		trial.Check(fmt.Errorf("docket built with the tag nosync says %q: it syncs, and would be compared with itself", said))
	}
}

// scratch makes an empty directory on the disk, which has come to rest.
func (l *lab) scratch() string { return l.Scratch(l.T) }

// part runs a part of the experiment, and ends with it what that part has started.
func (l *lab) part(do func(l *lab)) {
	l.Part("", 0, func(t *trial.T) { do(l.in(t)) })
}

// produce runs the load in a process of its own.
func (l *lab) produce(o load.Load) load.Done {
	return process.Call[load.Done](l.T, l.Self, produceCommand, o)
}

const (
	largeBytes   = 5 << 30
	largeRecords = largeBytes / record.Bytes
	// largeRoom is what must be free on the disk: the backlog, what the rounds
	// add to it, and what the other experiments write.
	largeRoom = largeBytes + 8<<30
)

// checkRoom says whether the disk can take the large backlog.
func (l *lab) checkRoom() {
	var s unix.Statfs_t
	trial.Check(unix.Statfs(l.Disk, &s))
	if free := int64(s.Bavail) * s.Bsize; free < largeRoom {
		trial.Check(fmt.Errorf("%s has %d GB free and the large backlog needs %d: use -large=false to leave it out, or -dir",
			l.Disk, free>>30, int64(largeRoom)>>30))
	}
}

// largeDir returns a directory with the large backlog in its "queue". The first
// call makes it; Close removes it.
func (l *lab) largeDir() string {
	dir := filepath.Join(l.Disk, "large")
	if _, err := os.Stat(dir); err != nil {
		trial.Check(os.Mkdir(dir, 0o700))
		l.fill(backlogFill{Directory: filepath.Join(dir, "queue"), Records: largeRecords})
	}
	return dir
}
