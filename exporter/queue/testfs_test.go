package queue

import (
	"bytes"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/exporter/queue/state"
	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/internal/disk/crashdisk"
)

// testFS is a file system whose operations can be counted and made to fail, with what
// only a queue has.
type testFS struct {
	crashdisk.Steps
	// spareReserve refuses the reserve, which is most of what a queue of this size
	// writes, where nothing is tested that needs it.
	spareReserve bool

	mu   sync.Mutex
	gate chan struct{} // when not nil, writes of frames wait until it is closed
	// So many of the next operations of this kind fail as a part of what is tested.
	failing     string
	failingLeft int
}

func newTestFS() *testFS {
	f := &testFS{}
	f.Script = f.script
	return f
}

func (f *testFS) script(op, name string, p []byte) crashdisk.Fault {
	f.mu.Lock()
	gate := f.gate
	f.mu.Unlock()
	if gate != nil && bytes.HasPrefix(p, []byte("DFM1")) {
		<-gate
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.spareReserve && op == "create" && filepath.Base(name) == state.ReserveFile+disk.NewSuffix {
		return crashdisk.Fault{Err: unix.ENOSPC}
	}
	if f.failingLeft > 0 && f.failing == op && (op == "syncdir" || isSegment(name)) {
		f.failingLeft--
		return crashdisk.Fault{Err: unix.EIO, Done: 0.5}
	}
	return crashdisk.Fault{}
}

// failNext makes the next n operations of the kind op on segments fail.
func (f *testFS) failNext(op string, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failing, f.failingLeft = op, n
}

// hold keeps writes of frames waiting until the result is called, so that what is
// appended meanwhile becomes one commit.
func (f *testFS) hold() (release func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	gate := make(chan struct{})
	f.gate = gate
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.gate = nil
		close(gate)
	}
}

func (f *testFS) holds() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.gate != nil
}

// isReserve tells of a file whose content means nothing, and most of the disk is that.
func isReserve(name string) bool { return strings.HasPrefix(filepath.Base(name), state.ReserveFile) }
