package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/internal/testcli"
)

// spaceTest is a docket under load whose queue lies on disk, with a sink that is away until
// receive, and one that exports to files on another disk.
type spaceTest struct {
	*crashes
	disk string
	away string // address of the sink that is away
}

func newSpaceTest(t *testing.T, disk, queue string) *spaceTest {
	t.Helper()
	away, err := testcli.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	s := &spaceTest{disk: disk, away: away}
	s.crashes = newCrashes(t, "full", dir, strings.NewReplacer("DISK", disk, "AWAY", away, "QUEUE", queue).Replace(`apiVersion: docket.dev/v1alpha1
kind: Exporter
sources:
- name: local
  unix: {path: DIR/docket.sock}
queue: {directory: DISK/queue, QUEUE}
sinks:
- name: away
  retry: {initialBackoff: 20ms, maxBackoff: 100ms}
  batch: {maxWait: 5ms}
  http: {url: "http://AWAY/"}
- name: export
  file: {directory: DIR/export}
admin: {address: "ADMIN"}
shutdown: {drainTimeout: 200ms}
`), filepath.Join(dir, "export"))
	return s
}

// receive brings the sink's destination up.
func (s *spaceTest) receive() { listenAt(s.t, s.away, newReceiver(s.t)) }

// settles waits until docket acknowledges lines again, ends it, and compares all that was
// acknowledged with the export.
func (s *spaceTest) settles(docket *exec.Cmd) {
	s.t.Helper()
	acked := s.acked()
	eventually(s.t, "acks again", func() bool { return s.acked() > acked+200 })
	kill(s.t, docket)
	s.finish(1)
}

// TestDiskFull is the real program on a disk that fills up and is freed again: it says so,
// acknowledges nothing that it has not stored, a kill on the full disk included, goes on without
// being started again, and loses nothing that it has acknowledged.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	s := newSpaceTest(t, smallDisk(t, "24m"), "maxBytes: 32Mi, minFreeBytes: 4Mi")
	junk := filepath.Join(s.disk, "junk")
	writeFile(t, junk, strings.Repeat("x", 10<<20))
	docket := startDocket(t, s.dir)
	isFull := func(st exporter.Status) bool { return st.Queue.State == exporter.Error }
	waitStatus(t, s.admin, isFull)
	acked := s.acked() // first: what is stored only grows
	if st := waitStatus(t, s.admin, isFull); st.Ledger.Stored < acked {
		t.Errorf("got %d lines acknowledged and %d stored", acked, st.Ledger.Stored)
	}
	kill(t, docket)
	docket = startDocket(t, s.dir)
	full := waitStatus(t, s.admin, isFull).Queue
	if !strings.HasPrefix(full.Reason, "disk full: ") || !strings.Contains(full.Reason, "free space on the file system of "+s.disk) || full.Since == nil {
		t.Errorf("got since %v, reason %q, want when the disk became full, and what to do", full.Since, full.Reason)
	}
	for probe, want := range map[string]string{"live": "live\n", "startup": "started\n", "ready": "docket probe: not ready: queue: disk full: "} {
		out, err := exec.Command("docket", "probe", probe, "-f", filepath.Join(s.dir, "docket.yaml")).CombinedOutput()
		if !strings.HasPrefix(string(out), want) || (err != nil) != (probe == "ready") {
			t.Errorf("docket probe %s: got %q, %v, want %q", probe, out, err, want)
		}
	}
	var disk unix.Statfs_t
	if err := unix.Statfs(s.disk, &disk); err != nil {
		t.Fatal(err)
	}
	if free := int64(disk.Bavail) * disk.Bsize; free < 3<<20 {
		t.Errorf("got %d bytes left free, want about the 4 MiB of queue.minFreeBytes", free)
	}

	if err := os.Remove(junk); err != nil {
		t.Fatal(err)
	}
	s.receive()
	waitStatus(t, s.admin, func(st exporter.Status) bool { return st.Queue.State == exporter.Active })
	eventually(t, "readiness", func() bool { return isReady(t, s.admin) })
	s.settles(docket)
}

// TestFullByMaxBytes: a sink that is down fills the queue up to its bound. That is told, and
// logged once; it makes nobody unready.
func TestFullByMaxBytes(t *testing.T) {
	t.Parallel()
	s := newSpaceTest(t, t.TempDir(), "maxBytes: 16Mi")
	docket := startDocket(t, s.dir)
	full := waitStatus(t, s.admin, func(st exporter.Status) bool { return st.Queue.State != exporter.Active }).Queue
	if full.State != exporter.Degraded || full.Since == nil || !strings.HasPrefix(full.Reason, "full: producers wait: sink away holds back ") {
		t.Errorf("got state %s since %v: %s, want Degraded by the sink that is away", full.State, full.Since, full.Reason)
	}
	if !isReady(t, s.admin) {
		t.Error("got an exporter that is not ready, want readiness left alone")
	}
	if n := strings.Count(readFile(t, filepath.Join(s.dir, "log")), `"msg":"queue is full"`); n != 1 {
		t.Errorf("got %d lines in the log that the queue is full, want 1", n)
	}
	s.receive()
	s.settles(docket)
}

// TestDropOldest: a queue that drops takes every line although one sink is down, the books tell
// what that sink has lost, and a kill forgets nothing of it.
func TestDropOldest(t *testing.T) {
	t.Parallel()
	s := newSpaceTest(t, t.TempDir(), "maxBytes: 16Mi, whenFull: DropOldest")
	docket := startDocket(t, s.dir)
	dropping := waitStatus(t, s.admin, func(st exporter.Status) bool { return st.Ledger.Sinks["away"].Dropped > 5000 })
	if q := dropping.Queue; q.State != exporter.Degraded || !strings.Contains(q.Reason, "the oldest records are dropped (so far ") || !isReady(t, s.admin) {
		t.Errorf("got state %s (%s), want Degraded, what is dropped, and ready", q.State, q.Reason)
	}
	release := s.hold(s.producers)
	kill(t, docket)
	startDocket(t, s.dir)
	st := waitStatus(t, s.admin, func(exporter.Status) bool { return true })
	away := st.Ledger.Sinks["away"]
	if gone := st.Queue.FirstSeq - 1; away.Dropped < gone || gone == 0 || away.Dropped+away.Delivered+away.Pending != st.Ledger.Stored {
		t.Errorf("got %+v of %d stored after a kill, want at least the %d dropped that are gone", away, st.Ledger.Stored, gone)
	}
	s.receive()
	st = waitStatus(t, s.admin, func(st exporter.Status) bool { return st.Ledger.Sinks["away"].Pending == 0 })
	if away := st.Ledger.Sinks["away"]; away.Dropped == 0 || away.Dropped+away.Delivered != st.Ledger.Stored {
		t.Errorf("got %+v of %d stored, want the rest delivered", away, st.Ledger.Stored)
	}
	s.stop()
	release()
}

// smallDisk mounts a disk of size, such as "48m". That takes privileges, which a
// developer's account rarely has and CI does.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("a small disk needs the right to mount one: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return dir
}
