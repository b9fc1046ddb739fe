package filesink

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/sinks"
)

// scripts are deliveries that between them make every change in every order the
// sink knows. Files are finished at 150 bytes, three or four records.
var scripts = map[string][]sinks.Batch{
	"one queue": {
		batch(queueA, 1, 2), batch(queueA, 3, 3), batch(queueA, 4, 8), batch(queueA, 9, 9),
	},
	"another queue": {
		batch(queueA, 1, 2), batch(queueB, 1, 2), batch(queueB, 3, 3),
	},
	"restarts": { // before every batch
		batch(queueA, 1, 1), batch(queueA, 2, 2), batch(queueA, 3, 4), batch(queueA, 5, 5),
	},
}

const scriptMaxBytes = 150

// TestCrash ends the story before every single change, with a process that is
// killed and with power cuts, and wants each record exactly once after a
// redelivery. The bubble's clock stands still, which makes equal states equal.
func TestCrash(t *testing.T) {
	for name, script := range scripts {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // most of the time is spent waiting for the disk
			synctest.Test(t, func(t *testing.T) {
				r := newRecorder(t, script)
				r.restart = name == "restarts"
				r.deliver()
				r.mustHaveSeen("write", "sync", "create", "rename", "sync directory")
				t.Logf("%d changes, %d states", r.changes, len(r.checked))
			})
		})
	}
}

// TestFailureAtEveryChange lets one change after the other fail, and with each of
// them ends the story before every later change.
func TestFailureAtEveryChange(t *testing.T) {
	for name, script := range scripts {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // most of the time is spent waiting for the disk
			synctest.Test(t, func(t *testing.T) {
				checked := map[string]bool{}
				for failAt := 1; ; failAt++ {
					r := newRecorder(t, script)
					r.failAt, r.checked, r.restart = failAt, checked, name == "restarts"
					r.deliver()
					if r.changes < failAt {
						t.Logf("%d changes, %d states", r.changes, len(checked))
						return
					}
				}
			})
		})
	}
}

// recorder delivers a script to a sink in dir, watches its changes, and knows
// at any moment what a crash would leave there.
type recorder struct {
	t      *testing.T
	dir    string
	script []sinks.Batch
	// restart closes the sink before every batch and opens another.
	restart bool

	sent    int // batches that were accepted
	changes int
	failAt  int // number of the change that fails; 0: none
	failed  string
	seen    map[string]bool
	checked map[string]bool // states that were tried, by their content

	change, path string // made since the last look, or about to be
	files        map[uint64]*inode
	live         map[string]*inode // names as a running system sees them
	durable      map[string]*inode // names at the last sync of the directory
}

// inode is a file whatever its names.
type inode struct {
	live    []byte // content as a running system sees it
	durable []byte // content at the last sync
	lost    bool   // a sync failed: no later one makes its pages durable
}

func newRecorder(t *testing.T, script []sinks.Batch) *recorder {
	return &recorder{
		t: t, dir: t.TempDir(), script: script,
		seen: map[string]bool{}, checked: map[string]bool{}, files: map[uint64]*inode{},
	}
}

// deliver does what the delivery loop does: it offers a batch until it is taken.
// One failure is planned, no more.
func (r *recorder) deliver() {
	s := r.open()
	for ; r.sent < len(r.script); r.sent++ {
		if r.restart {
			mustClose(r.t, s)
			s = r.open()
		}
		failed := r.failed
		err := s.Send(context.Background(), r.script[r.sent])
		if err != nil && r.failed != failed {
			checkFailure(r.t, err, sinks.Transient, r.dir)
			err = s.Send(context.Background(), r.script[r.sent])
		}
		if err != nil {
			r.t.Fatalf("send, failing change %d (%s): %v", r.failAt, r.failed, err)
		}
	}
	r.look()
	r.crash()
	mustClose(r.t, s)
}

func (r *recorder) open() *sink {
	c, d := rotating(r.dir, scriptMaxBytes), disk{before: r.before}
	failed := r.failed
	s, err := open(c, env(), d)
	if err != nil && r.failed != failed {
		s, err = open(c, env(), d)
	}
	if err != nil {
		r.t.Fatalf("open, failing change %d (%s): %v", r.failAt, r.failed, err)
	}
	return s
}

// before is the hook of disk.
func (r *recorder) before(change, path string) error {
	r.look()
	r.crash()
	r.changes++
	r.seen[change] = true
	r.change, r.path = change, filepath.Base(path)
	if r.changes == r.failAt {
		if change == "sync" {
			r.live[r.path].lost = true
		}
		r.failed, r.change = change+" "+r.path, ""
		return &os.PathError{Op: change, Path: path, Err: unix.EIO}
	}
	return nil
}

// look takes note of the change that was made.
func (r *recorder) look() {
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		r.t.Fatal(err)
	}
	r.live = map[string]*inode{}
	for _, e := range entries {
		var stat unix.Stat_t
		path := filepath.Join(r.dir, e.Name())
		if err := unix.Stat(path, &stat); err != nil {
			r.t.Fatal(err)
		}
		created := r.change == "create" && e.Name() == r.path
		if r.files[stat.Ino] == nil || created { // numbers are used again
			r.files[stat.Ino] = &inode{}
		}
		if r.files[stat.Ino].live, err = os.ReadFile(path); err != nil {
			r.t.Fatal(err)
		}
		r.live[e.Name()] = r.files[stat.Ino]
	}
	switch f := r.live[r.path]; {
	case r.change == "sync" && !f.lost:
		f.durable = f.live
	case r.change == "sync directory":
		r.durable = maps.Clone(r.live)
	}
	r.change = ""
}

// crash tries all that a crash at this moment can leave: the names of now or of
// the last sync, and with them any mixture of what may have become of each file.
func (r *recorder) crash() {
	for which, directory := range map[string]map[string]*inode{"live names": r.live, "durable names": r.durable} {
		mixtures := []map[string]string{{}}
		for name, f := range directory {
			if name == lockName {
				continue
			}
			var more []map[string]string
			for _, content := range f.remains(name) {
				for _, m := range mixtures {
					m = maps.Clone(m)
					m[name] = content
					more = append(more, m)
				}
			}
			mixtures = more
		}
		for _, files := range mixtures {
			r.recover(which, files)
		}
	}
}

// remains are the contents that a crash can leave of f: all of it, what was
// synced, and for records what was synced with half of the rest, or with zeros
// for the rest, where the size reached the disk but the pages did not. A
// position is smaller than a sector and written whole or not at all.
func (f *inode) remains(name string) []string {
	if bytes.Equal(f.live, f.durable) {
		return []string{string(f.live)}
	}
	list := []string{string(f.live), string(f.durable)}
	if rest := len(f.live) - len(f.durable); rest > 0 && !strings.HasPrefix(name, positionName) {
		list = append(list,
			string(f.live[:len(f.durable)+rest/2]),
			string(f.durable)+strings.Repeat("\x00", rest))
	}
	return list
}

// recover opens a sink on the files of a crash, redelivers, and wants every
// record exactly once.
func (r *recorder) recover(which string, files map[string]string) {
	key := fmt.Sprint(r.sent, files)
	if r.checked[key] {
		return
	}
	r.checked[key] = true
	dir := r.t.TempDir()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			r.t.Fatal(err)
		}
	}
	s, err := open(rotating(dir, scriptMaxBytes), env(), disk{})
	if err != nil {
		r.t.Fatalf("open after a crash before change %d (%s %s), %s, failed change %q: %v",
			r.changes, r.change, r.path, which, r.failed, err)
	}
	for _, b := range r.redelivery() {
		mustSend(r.t, s, b)
	}
	mustClose(r.t, s)
	r.check(which, dir, files)
}

// redelivery is what comes after a restart: the batch before the one at work
// too, because its acceptance may not have been noted, and in other portions.
func (r *recorder) redelivery() []sinks.Batch {
	from := r.sent
	if from == len(r.script) || from > 0 && r.script[from-1].Queue == r.script[from].Queue {
		from--
	}
	var list []sinks.Batch
	for _, b := range r.script[from:] {
		for items := range slices.Chunk(b.Items, 3) {
			list = append(list, sinks.Batch{Queue: b.Queue, Items: items})
		}
	}
	return list
}

func (r *recorder) check(which, dir string, files map[string]string) {
	var want []string
	for _, b := range r.script {
		for _, it := range b.Items {
			want = append(want, string(it.Record))
		}
	}
	got := exported(r.t, dir)
	if r.script[0].Queue != r.script[len(r.script)-1].Queue {
		slices.Sort(got) // names of two queues do not sort in the order of delivery
		slices.Sort(want)
	}
	if !slices.Equal(got, want) {
		r.t.Fatalf("after a crash following %d changes, %d batches accepted, %s, failed change %q\nleft    %v\ngot     %s\nwant    %s",
			r.changes, r.sent, which, r.failed, slices.Sorted(maps.Keys(files)), strings.Join(got, "\n        "), strings.Join(want, "\n        "))
	}
	for _, name := range names(r.t, dir, "decisions-*") {
		if strings.HasPrefix(name, "decisions-unnumbered-") || name == newPositionName {
			r.t.Errorf("a crash following %d changes, %s, left %s", r.changes, which, name)
		}
	}
	checkNames(r.t, dir)
}

// checkNames compares the seqs in the names of finished files with their
// contents.
func checkNames(t *testing.T, dir string) {
	t.Helper()
	for _, name := range names(t, dir, finishedPattern) {
		var first, last uint64
		if _, err := fmt.Sscanf(name, "decisions-%020d-%020d-", &first, &last); err != nil {
			t.Fatalf("name %s: %v", name, err)
		}
		list := lines(t, filepath.Join(dir, name))
		ends := []string{fmt.Sprintf(`"seq":%d,`, first), fmt.Sprintf(`"seq":%d,`, last)}
		if !strings.Contains(list[0], ends[0]) || !strings.Contains(list[len(list)-1], ends[1]) {
			t.Errorf("%s begins with %s and ends with %s", name, list[0], list[len(list)-1])
		}
	}
}

func (r *recorder) mustHaveSeen(changes ...string) {
	for _, c := range changes {
		if !r.seen[c] {
			r.t.Errorf("the script made no change %q: it no longer tests what it is to test", c)
		}
	}
}
