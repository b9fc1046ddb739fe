package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/client"
	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/internal/testcli"
)

// spaceTest is a docket with a sink that is away at first, and one that exports to
// files on another disk.
type spaceTest struct {
	t        *testing.T
	dir      string
	disk     string // holds the queue
	admin    string
	receiver string // address of the sink
	docket   *exec.Cmd
	producer *spaceProducer // nil before the first
	killed   bool

	mu     sync.Mutex
	counts map[uint64]int // deliveries of each record; guarded by mu
}

func newSpaceTest(t *testing.T, disk, queue string) *spaceTest {
	t.Helper()
	s := &spaceTest{t: t, dir: t.TempDir(), disk: disk, counts: map[uint64]int{}}
	for _, address := range []*string{&s.admin, &s.receiver} {
		var err error
		if *address, err = testcli.FreeAddress(); err != nil {
			t.Fatal(err)
		}
	}
	writeFile(t, filepath.Join(s.dir, "docket.yaml"), strings.NewReplacer(
		"ADMIN", s.admin, "DIR", s.dir, "DISK", disk, "RECEIVER", s.receiver, "QUEUE", queue).Replace(`apiVersion: docket.dev/v1alpha1
kind: Exporter
sources:
- name: local
  unix: {path: DIR/docket.sock}
queue: {directory: DISK/queue, QUEUE}
sinks:
- name: away
  retry: {initialBackoff: 20ms, maxBackoff: 100ms}
  batch: {maxWait: 5ms}
  http: {url: "http://RECEIVER/"}
- name: export
  file: {directory: DIR/export}
admin: {address: "ADMIN"}
shutdown: {drainTimeout: 200ms}
`))
	return s
}

func (s *spaceTest) start() {
	s.t.Helper()
	s.docket = startDocket(s.t, s.dir)
	eventually(s.t, "an admin endpoint", func() bool {
		res, err := http.Get("http://" + s.admin + "/livez")
		if err == nil {
			res.Body.Close()
		}
		return err == nil
	})
}

func (s *spaceTest) kill() {
	s.t.Helper()
	if err := s.docket.Process.Kill(); err != nil {
		s.t.Fatal(err)
	}
	s.docket.Wait() // says that it was killed
	s.killed = true
}

func (s *spaceTest) stop() {
	s.t.Helper()
	interrupt(s.t, s.docket)
	if err := s.docket.Wait(); err != nil {
		s.t.Errorf("docket run: %v", err)
	}
}

// receive brings the sink's destination up for the rest of the test.
func (s *spaceTest) receive() {
	s.t.Helper()
	l, err := net.Listen("tcp", s.receiver)
	if errors.Is(err, unix.EADDRINUSE) {
		return // it is up
	}
	if err != nil {
		s.t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		s.count(body)
	})}
	go server.Serve(l)
	s.t.Cleanup(func() { server.Close() })
}

func (s *spaceTest) count(body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for scanner := bufio.NewScanner(bytes.NewReader(body)); scanner.Scan(); {
		var record struct{ N uint64 }
		if err := json.Unmarshal(scanner.Bytes(), &record); err != nil || scanner.Text() != spaceLine(record.N) {
			s.t.Errorf("got record %q, %v, want one as it was sent", scanner.Text(), err)
		}
		s.counts[record.N]++
	}
}

func (s *spaceTest) received() map[uint64]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts
}

func (s *spaceTest) await(what string, ok func(exporter.Status) bool) (st exporter.Status) {
	s.t.Helper()
	eventually(s.t, what, func() bool {
		st = s.status()
		return ok(st)
	})
	return st
}

// awaitDelivered waits until so many records are stored and no sink waits for any.
func (s *spaceTest) awaitDelivered(stored uint64) exporter.Status {
	s.t.Helper()
	return s.await("everything delivered", func(st exporter.Status) bool {
		return st.Ledger.Stored == stored && st.Ledger.Sinks["away"].Pending+st.Ledger.Sinks["export"].Pending == 0
	})
}

// checkFull checks what a docket on a full disk says.
func (s *spaceTest) checkFull(st exporter.Status) {
	s.t.Helper()
	q := st.Queue
	if !strings.HasPrefix(q.Reason, "disk full: ") || !strings.Contains(q.Reason, "free space on the file system of "+s.disk) || q.Since == nil {
		s.t.Errorf("got since %v, reason %q, want when the disk became full, and what to do", q.Since, q.Reason)
	}
	if isReady(s.t, s.admin) {
		s.t.Error("got a docket that is ready on a full disk")
	}
	if got := get(s.t, "http://"+s.admin+"/readyz"); !strings.Contains(got, "queue: disk full: ") {
		s.t.Errorf("got /readyz %q, want the reason in it", got)
	}
	for probe, want := range map[string]string{"live": "live\n", "startup": "started\n", "ready": "docket probe: not ready: queue: disk full: "} {
		p := exec.Command("docket", "probe", probe, "-f", filepath.Join(s.dir, "docket.yaml"))
		if got, err := p.CombinedOutput(); !strings.HasPrefix(string(got), want) || strings.Count(string(got), "\n") != 1 || (err != nil) != (probe == "ready") {
			s.t.Errorf("docket probe %s: got %q, %v, want one line, %q", probe, got, err, want)
		}
	}
	if got, want := get(s.t, "http://"+s.admin+"/metrics"), "docket_queue_state{state=\"Error\"} 1\n"; !strings.Contains(got, want) {
		s.t.Errorf("got metrics without %q", want)
	}
	var disk unix.Statfs_t
	if err := unix.Statfs(s.disk, &disk); err != nil {
		s.t.Fatal(err)
	}
	if free := int64(disk.Bavail) * disk.Bsize; free < 3<<20 {
		s.t.Errorf("got %d bytes left free, want about the 4 MiB of queue.minFreeBytes", free)
	}
}

// status returns /status. At every moment nothing is acknowledged but what is
// stored. Only what a kill has left on a disk that takes no writes is not counted
// before it is safe there a second time.
func (s *spaceTest) status() (st exporter.Status) {
	s.t.Helper()
	var acked uint64
	if s.producer != nil {
		acked = s.producer.acked.Load() // first: what is stored only grows
	}
	if err := json.Unmarshal([]byte(get(s.t, "http://"+s.admin+"/status")), &st); err != nil {
		s.t.Fatal(err)
	}
	if st.Ledger.Stored < acked && !(s.killed && st.Queue.State == exporter.Error) {
		s.t.Fatalf("got %d lines acknowledged and %d stored", acked, st.Ledger.Stored)
	}
	return st
}

// checkBytes checks that the queue's records keep within queue.maxBytes on disk.
// What lies beside them (positions, reserve) is less than a megabyte. A file that
// is renamed meanwhile may be counted twice.
func (s *spaceTest) checkBytes(maxBytes int64) {
	s.t.Helper()
	eventually(s.t, fmt.Sprintf("a queue of at most %d bytes", maxBytes), func() bool {
		return bytesBelow(filepath.Join(s.disk, "queue")) < maxBytes+1<<20
	})
}

// checkLedger checks that the books balance once the producer has ended.
func (s *spaceTest) checkLedger(p *spaceProducer) exporter.Status {
	s.t.Helper()
	st := s.status()
	l := st.Ledger
	if l.Stored != p.sent || l.Received != l.Stored+l.Duplicate || len(l.Sinks) != 2 {
		s.t.Errorf("got the ledger %+v, want it to balance at %d stored", l, p.sent)
	}
	for name, a := range l.Sinks {
		if a.Delivered+a.Dropped+a.Pending != l.Stored || a.Filtered+a.DeadLettered+a.Corrupt != 0 {
			s.t.Errorf("got the account %+v of sink %s, want it to balance at %d stored", a, name, l.Stored)
		}
	}
	return st
}

// finish waits until everything is delivered, stops docket, and checks that
// nothing is missing.
func (s *spaceTest) finish(p *spaceProducer) {
	s.t.Helper()
	s.awaitDelivered(p.sent)
	for name, a := range s.checkLedger(p).Ledger.Sinks {
		if a.Delivered != p.sent {
			s.t.Errorf("got %+v of sink %s, want all of %d delivered", a, name, p.sent)
		}
	}
	s.stop()
	got := s.received()
	for n := uint64(1); n <= p.sent; n++ {
		if got[n] == 0 {
			s.t.Fatalf("got no record %d of %d, all of which were acknowledged", n, p.sent)
		}
	}
	var want []string
	for n := range p.sent {
		want = append(want, spaceLine(n+1))
	}
	compareLines(s.t, "export", exportedLines(s.t, filepath.Join(s.dir, "export")), want)
	s.t.Logf("%d lines acknowledged, 0 lost", p.sent)
}

func (s *spaceTest) junkFile() string { return filepath.Join(s.disk, "junk") }

// junk takes size bytes from the disk, or what there is.
func (s *spaceTest) junk(size int) {
	s.t.Helper()
	f, err := os.Create(s.junkFile())
	if err != nil {
		s.t.Fatal(err)
	}
	defer f.Close()
	for n := 1 << 20; n >= 4096 && size > 0; {
		m, err := f.Write(make([]byte, min(n, size)))
		size -= m
		if err != nil {
			n /= 2
		}
	}
}

func (s *spaceTest) removeJunk() {
	s.t.Helper()
	if err := os.Remove(s.junkFile()); err != nil {
		s.t.Fatal(err)
	}
}

// spaceProducer sends numbered lines of 4 KB in acknowledged mode.
type spaceProducer struct {
	t      *testing.T
	sender *client.Sender
	acked  atomic.Uint64
	most   atomic.Uint64 // how many run may send
	sent   uint64        // owned by run until it has ended
	cancel context.CancelFunc
	ended  chan struct{}
}

func spaceLine(n uint64) string { return fmt.Sprintf(`{"N":%d,"pad":"%04000d"}`, n, n) }

// produce sends until stop, or as many as p.most says.
func (s *spaceTest) produce() *spaceProducer {
	s.t.Helper()
	p := &spaceProducer{t: s.t, ended: make(chan struct{})}
	p.most.Store(math.MaxUint64)
	var err error
	p.sender, err = client.NewSender(client.SenderConfig{
		Address:          "unix://" + filepath.Join(s.dir, "docket.sock"),
		MaxInFlightLines: 100,
		Acked:            p.acked.Store,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.producer = p
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	go func() {
		defer close(p.ended)
		for p.sent < p.most.Load() && p.sender.Send(ctx, []byte(spaceLine(p.sent+1))) == nil {
			p.sent++
		}
	}()
	s.t.Cleanup(func() {
		cancel()
		<-p.ended
		p.sender.Close(ctx) // what is left, a failed test has not waited for
	})
	return p
}

// stop ends sending and waits until everything that was sent is acknowledged.
func (p *spaceProducer) stop() {
	p.t.Helper()
	p.cancel()
	<-p.ended
	ctx, cancel := context.WithTimeout(context.Background(), await.Left(p.t))
	defer cancel()
	if err := p.sender.Flush(ctx); err != nil || p.acked.Load() != p.sent {
		p.t.Fatalf("flush: %v, %d of %d lines acknowledged", err, p.acked.Load(), p.sent)
	}
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

// bytesBelow is the size of the files below dir.
func bytesBelow(dir string) (n int64) {
	_ = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // a file may be removed meanwhile
		}
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() {
			n += info.Size()
		}
		return nil
	})
	return n
}
