package filesink

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/sinks"
)

// recorder delivers a script to a sink in dir, watches its changes, and knows
// at any moment what a crash would leave there.
type recorder struct {
	t        *testing.T
	dir      string
	script   script
	failures failures
	blind    bool // looks at the end only

	sent    int // batches that were accepted
	changes int
	failed  string // the last change that failed, with its number
	seen    map[string]bool
	checked map[string]bool // states that were tried, by their content

	change, path string // made since the last look, or about to be
	files        map[uint64]*inode
	live         map[string]*inode // names as a running system sees them
	durable      map[string]*inode // names at the last sync of their directory
}

// inode is a file or directory whatever its names.
type inode struct {
	directory bool
	live      []byte // content as a running system sees it
	durable   []byte // content at the last sync
	lost      bool   // a sync failed: no later one makes its pages durable
}

func newRecorder(t *testing.T, script script) *recorder {
	return &recorder{
		t: t, dir: quickDir(t), script: script,
		seen: map[string]bool{}, checked: map[string]bool{}, files: map[uint64]*inode{}, durable: map[string]*inode{},
	}
}

// quickDir is a directory for tests that sync a lot and do not mean it, in memory
// where there is some.
func quickDir(t *testing.T) string {
	//nolint:usetesting // it is in memory on purpose
	dir, err := os.MkdirTemp("/dev/shm", "filesink-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// config is that for the batch at work.
func (r *recorder) config(dir string) Config {
	c := rotating(dir, scriptMaxBytes)
	if r.script.config != nil {
		r.script.config(&c, min(r.sent, len(r.script.batches)-1))
	}
	return c
}

// before is the hook of disk.
func (r *recorder) before(change, path string) error {
	r.look()
	r.crash()
	r.changes++
	r.seen[change] = true
	r.change, r.path = change, r.relative(path)
	if r.failures.fails(r.changes, change) {
		if change == "sync" && !r.blind {
			r.live[r.path].lost = true
		}
		r.failed, r.change = fmt.Sprintf("%d: %s %s", r.changes, change, r.path), ""
		return &os.PathError{Op: change, Path: path, Err: r.failures.errno}
	}
	return nil
}

func (r *recorder) relative(path string) string {
	name, err := filepath.Rel(r.dir, path)
	if err != nil {
		r.t.Fatal(err)
	}
	return name
}

// look takes note of the change that was made.
func (r *recorder) look() {
	if r.blind {
		return
	}
	r.live = map[string]*inode{}
	err := filepath.WalkDir(r.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == r.dir {
			return err
		}
		name := r.relative(path)
		r.live[name] = r.inode(path, r.change == "create" && name == r.path || r.change == "mkdir" && name == r.path)
		if d.IsDir() {
			r.live[name].directory = true
			return nil
		}
		r.live[name].live, err = os.ReadFile(path)
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
	switch r.change {
	case "sync":
		if f := r.live[r.path]; !f.lost {
			f.durable = f.live
		}
	case "syncdir":
		inside := func(name string, _ *inode) bool { return path.Dir(name) == r.path }
		maps.DeleteFunc(r.durable, inside)
		for name, f := range r.live {
			if inside(name, f) {
				r.durable[name] = f
			}
		}
	}
	r.change = ""
}

// inode is that of path. Numbers are used again, so one that was just created is
// another.
func (r *recorder) inode(path string, created bool) *inode {
	var stat unix.Stat_t
	if err := unix.Lstat(path, &stat); err != nil {
		r.t.Fatal(err)
	}
	if r.files[stat.Ino] == nil || created {
		r.files[stat.Ino] = &inode{}
	}
	return r.files[stat.Ino]
}

// crash tries all that a crash at this moment can leave: the names of now or of
// the last syncs, and with them any mixture of what may have become of each file.
func (r *recorder) crash() {
	if r.blind || r.changes < r.failures.from { // TestCrash has seen that
		return
	}
	for which, names := range map[string]map[string]*inode{"live names": r.live, "durable names": r.durable} {
		mixtures := []map[string]string{{}}
		for name, f := range names {
			if name == lockName || f.directory || !reachable(names, name) {
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

// reachable says whether the directory of a file is there.
func reachable(names map[string]*inode, name string) bool {
	dir := path.Dir(name)
	return dir == "." || names[dir] != nil
}

// remains are the contents that a crash can leave of f: all of it, what was
// synced, and what was synced with half of the rest, or with zeros for the rest,
// where the size reached the disk but the pages did not. A slot of a position is
// smaller than a sector and written whole or not at all; the gap log behind the
// slots is torn like any file.
func (f *inode) remains(name string) []string {
	if bytes.Equal(f.live, f.durable) {
		return []string{string(f.live)}
	}
	if name != positionName {
		return torn(f.durable, f.live)
	}
	var list []string
	for _, slots := range []string{string(f.durable[:gapLogStart]), string(f.live[:gapLogStart])} {
		for _, log := range torn(f.durable[gapLogStart:], f.live[gapLogStart:]) {
			list = append(list, slots+log)
		}
	}
	return list
}

func torn(durable, live []byte) []string {
	if bytes.Equal(durable, live) {
		return []string{string(live)}
	}
	list := []string{string(live), string(durable)}
	if rest := len(live) - len(durable); rest > 0 {
		list = append(list,
			string(live[:len(durable)+rest/2]),
			string(durable)+strings.Repeat("\x00", rest))
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
	dir := quickDir(r.t)
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			r.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			r.t.Fatal(err)
		}
	}
	s, err := open(r.config(dir), env(), nil)
	if err != nil {
		r.t.Fatalf("open after a crash before change %d (%s %s), %s, failed change %q: %v",
			r.changes, r.change, r.path, which, r.failed, err)
	}
	r.t.Cleanup(func() { mustClose(r.t, s) }) // where the test ends early
	for _, b := range r.redelivery() {
		mustSend(r.t, s, b)
	}
	mustClose(r.t, s)
	r.check(which, dir, files)
	if err := os.RemoveAll(dir); err != nil {
		r.t.Fatal(err)
	}
}

// redelivery is what comes after a restart: the batch before the one at work
// too, because its acceptance may not have been noted, and in other portions.
func (r *recorder) redelivery() []sinks.Batch {
	batches, from := r.script.batches, r.sent
	if from == len(batches) || from > 0 && batches[from-1].Queue == batches[from].Queue {
		from--
	}
	var list []sinks.Batch
	for _, b := range batches[from:] {
		rest := portion{items: b.Items, gaps: b.Gaps}
		for !rest.empty() {
			var part portion
			part, rest = rest, portion{}
			if len(part.items) > 3 {
				part, rest = part.before(part.items[3].Seq)
			}
			list = append(list, sinks.Batch{Queue: b.Queue, Items: part.items, Gaps: part.gaps})
		}
	}
	return list
}

// check wants what was delivered to be in dir, no more and no less.
func (r *recorder) check(which, dir string, files map[string]string) {
	r.t.Helper()
	want := map[string]string{}
	for _, b := range r.script.batches {
		for _, it := range b.Items {
			want[fmt.Sprintf("%.4s-%05d", b.Queue, it.Seq)] = string(it.Record)
		}
		for _, g := range b.Gaps {
			for seq := g.From; seq <= g.To; seq++ {
				want[fmt.Sprintf("%.4s-%05d", b.Queue, seq)] = string(g.Reason)
			}
		}
	}
	a := auditOf(r.t, dir)
	if !maps.Equal(a.fates, want) {
		a.problemf("got\n        %s\nwant    %s", table(a.fates), table(want))
	}
	if name := names(r.t, dir, "decisions-unnumbered-*"); len(name) > 0 && r.failures.from == 0 {
		a.problemf("files were set aside: %s", name)
	}
	for _, name := range []string{newPositionName, newManifestName} {
		if len(names(r.t, dir, name)) > 0 {
			a.problemf("%s was left", name)
		}
	}
	if r.failures.from == 0 {
		if b := breakIn(r.t, dir); b != nil {
			a.problemf("docket verify finds %+v", *b)
		}
	}
	if len(a.problems) > 0 {
		r.t.Fatalf("after a crash following %d changes, %d batches accepted, %s, failed change %q\nleft    %v\n%s",
			r.changes, r.sent, which, r.failed, slices.Sorted(maps.Keys(files)), strings.Join(a.problems, "\n"))
	}
}

func table(fates map[string]string) string {
	var b strings.Builder
	for _, id := range slices.Sorted(maps.Keys(fates)) {
		fmt.Fprintf(&b, "%s %s\n        ", id, fates[id])
	}
	return b.String()
}
