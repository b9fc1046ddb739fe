package tailsource

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/sources/tailsource/formats"
)

// node is the part of a node that a kubelet and a runtime write logs to.
type node struct {
	t          *testing.T
	root       string
	pods       string
	containers string
	link       string // of the container that runs
	n          int    // of its log
	lines      int
}

const pod = "gatekeeper-system_gatekeeper-audit-0_1b2c"

func newNode(t *testing.T) *node {
	root := t.TempDir()
	k := &node{t: t, root: root, pods: filepath.Join(root, "pods"), containers: filepath.Join(root, "containers"), n: -1}
	for _, dir := range []string{filepath.Join(k.pods, pod, "manager"), k.containers} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return k
}

func (k *node) dir() string { return filepath.Join(k.pods, pod, "manager") }

func (k *node) log() string { return filepath.Join(k.dir(), fmt.Sprintf("%d.log", k.n)) }

func (k *node) check(err error) {
	k.t.Helper()
	if err != nil {
		k.t.Fatal(err)
	}
}

// restart begins the next life of the container: another file, and a link with another name. The
// kubelet keeps the log of one dead container.
func (k *node) restart() {
	k.t.Helper()
	old := k.link
	k.n++
	k.write(0)
	k.link = filepath.Join(k.containers, fmt.Sprintf("gatekeeper-audit-0_gatekeeper-system_manager-%064x.log", k.n+7))
	symlink(k.t, k.log(), k.link)
	if old != "" {
		k.check(os.Remove(old))
	}
	if k.n >= 2 {
		dead, err := filepath.Glob(filepath.Join(k.dir(), fmt.Sprintf("%d.log*", k.n-2)))
		k.check(err)
		for _, name := range dead {
			k.check(os.Remove(name))
		}
	}
}

// rotate is what a kubelet does with a log that is too long. The rotation before is compressed.
func (k *node) rotate() {
	k.t.Helper()
	before, err := filepath.Glob(k.log() + ".2026*")
	k.check(err)
	for _, name := range before {
		if !strings.HasSuffix(name, ".gz") {
			k.check(os.WriteFile(name+".tmp", []byte(gzipped("old")), 0o644))
			k.check(os.Rename(name+".tmp", name+".gz"))
			k.check(os.Remove(name))
		}
	}
	k.check(os.Rename(k.log(), fmt.Sprintf("%s.20260101-%06d", k.log(), k.lines)))
	k.write(0)
}

func (k *node) write(n int) {
	k.t.Helper()
	var b strings.Builder
	for range n {
		k.lines++
		fmt.Fprintf(&b, "2026-01-05T10:04:07.123456789Z stderr F {\"event_type\":\"violation\",\"n\":%d}\n", k.lines)
	}
	appendTo(k.t, k.log(), b.String())
}

// want is every line once.
func (k *node) want() (list []string) {
	for n := range k.lines {
		list = append(list, fmt.Sprintf("{\"event_type\":\"violation\",\"n\":%d}", n+1))
	}
	return list
}

// awaitAll waits until everything was stored, once, in whatever order the files were read.
func (b *bench) awaitAll(want []string) {
	b.t.Helper()
	slices.Sort(want)
	await.Until(b.t, fmt.Sprintf("%d records", len(want)), func() bool { return len(b.stored()) >= len(want) })
	got := b.stored()
	slices.Sort(got)
	if !slices.Equal(got, want) {
		b.t.Fatalf("got %d records, want %d, each once", len(got), len(want))
	}
}

// A container restarts and its log rotates, while docket runs and while it does not: each line is
// read once, whether the path is a pattern of files or of links, or the directory.
func TestKubelet(t *testing.T) {
	for name, path := range map[string]func(k *node) string{
		"directory":              func(k *node) string { return k.dir() },
		"directory with a slash": func(k *node) string { return k.dir() + "/" },
		"pattern of directories": func(k *node) string { return filepath.Join(k.pods, "gatekeeper-system_gatekeeper-audit-*", "manager") },
		"pattern of files":       func(k *node) string { return filepath.Join(k.pods, "*", "manager", "*.log") },
		"pattern of links": func(k *node) string {
			return filepath.Join(k.containers, "gatekeeper-audit-*_gatekeeper-system_manager-*.log")
		},
		"pattern of rotated files too": func(k *node) string { return filepath.Join(k.pods, "*", "manager", "[0-9]*.log*") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newNode(t)
			b := newBench(t, formats.GatekeeperDenies)
			b.config.Path = path(k)
			b.start()
			k.restart()
			k.write(3)
			b.awaitAll(k.want())
			k.rotate()
			k.write(3)
			b.awaitAll(k.want())
			k.write(2)
			k.restart() // the last lines of the old log are not read yet
			k.write(2)
			b.awaitAll(k.want())
			k.rotate()
			k.write(1)
			k.restart()
			k.write(1)
			b.awaitAll(k.want())
			b.stop()

			k.write(2)
			k.rotate()
			k.write(2)
			k.restart()
			k.write(2)
			b.start()
			b.awaitAll(k.want())
			b.crash()
			b.start()
			k.write(1)
			b.awaitAll(k.want())
			if r := b.source.Report(); r.Lost != 0 {
				t.Errorf("got %d lost, want none", r.Lost)
			}
		})
	}
}

// The records of a pod that is deleted are read to their end, and its state goes with it.
func TestPodIsDeleted(t *testing.T) {
	t.Parallel()
	k := newNode(t)
	b := newBench(t, formats.GatekeeperDenies)
	b.config.Path = filepath.Join(k.pods, "*", "manager", "*.log")
	k.restart()
	k.write(3)
	b.start()
	b.awaitAll(k.want())
	b.in.Fill()
	k.write(5)
	k.check(os.RemoveAll(filepath.Join(k.pods, pod)))
	b.in.Drain()
	b.awaitAll(k.want())
	await.Until(t, "no state", func() bool {
		states, err := b.env.StateDir.Join("logs").Dirs()
		return err == nil && len(states) == 0
	})
	b.awaitTrouble("no file matches")
}

// The state of a file that is gone stays as long as the list of read files cannot be written: it
// alone says after a restart what was read.
func TestStateOfAGoneFileStaysUntilItIsListed(t *testing.T) {
	b := newBench(t, formats.JSON)
	b.config.Path = filepath.Join(b.dir, "*.log")
	b.write("{}\n")
	p, err := pathsOf(b.config.Path)
	b.check(err)
	b.source = b.config.New(b.env).(*source)
	b.source.grace, b.source.poll = b.grace, poll/100
	l := newLogs(b.source, b.in, newReport(b.env.Log), p)
	defer l.stopAll()
	b.check(l.look(t.Context()))
	b.wantStored([]string{"{}"})
	inTheWay := b.env.StateDir.Join("logs", "read.json")
	b.check(os.MkdirAll(filepath.Join(inTheWay.String(), "full"), 0o700))
	b.check(os.Remove(b.path))
	letGo := func() {
		t.Helper()
		await.Until(t, "the file is let go", func() bool {
			l.running[b.path].gone = time.Now().Add(-goneFor)
			l.letGo(time.Now())
			return len(l.running) == 0
		})
	}
	state := statePath(l.stateDir(b.path))
	letGo()
	if there, err := state.Exists(); !there || err != nil || !l.stored[b.path] {
		t.Fatalf("got a state: %v, %v, remembered: %v; want it to stay", there, err, l.stored[b.path])
	}
	b.check(os.RemoveAll(inTheWay.String()))
	b.check(l.look(t.Context())) // which begins it anew
	letGo()
	if there, err := state.Exists(); there || err != nil || l.stored[b.path] {
		t.Errorf("got a state: %v, %v, remembered: %v; want none once the file is listed", there, err, l.stored[b.path])
	}
}

// More files than are followed at a time are all read: one with nothing to read gives way.
func TestMoreFilesThanAreFollowed(t *testing.T) {
	t.Parallel()
	b := newBench(t, formats.JSON)
	b.config.Path = filepath.Join(b.dir, "*.log")
	var want []string
	write := func() {
		for n := range 3 * maxLogs {
			text := fmt.Sprintf("{\"file\":%d,\"n\":%d}", n, len(want))
			want = append(want, text)
			appendTo(t, filepath.Join(b.dir, fmt.Sprintf("%d.log", n)), text+"\n")
		}
	}
	write()
	b.start()
	b.awaitAll(slices.Clone(want))
	write()
	b.awaitAll(slices.Clone(want))
	b.stop()
	write()
	b.start()
	b.awaitAll(slices.Clone(want))
	await.Until(t, "no trouble", func() bool { return b.source.Report().Trouble == "" })
}

func (b *bench) check(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// A file under two names is read once.
func TestTwoNamesOfAFile(t *testing.T) {
	t.Parallel()
	b := newBench(t, formats.JSON)
	b.config.Path = filepath.Join(b.dir, "*.log")
	b.write("{}\n")
	symlink(t, b.path, filepath.Join(b.dir, "link.log"))
	b.check(os.Link(b.path, filepath.Join(b.dir, "hard.log")))
	b.start()
	b.awaitAll([]string{"{}"})
	b.write("{\"n\":2}\n")
	b.awaitAll([]string{"{}", "{\"n\":2}"})
	b.stop()
	b.start()
	b.write("{\"n\":3}\n")
	b.awaitAll([]string{"{}", "{\"n\":2}", "{\"n\":3}"})
}

// A path that names one life of a container says so when the next has begun.
func TestPathOfOneLife(t *testing.T) {
	t.Parallel()
	for name, path := range map[string]func(k *node) string{
		"file": func(k *node) string { return k.log() },
		"link": func(k *node) string {
			symlink(t, k.log(), filepath.Join(k.root, "link"))
			return filepath.Join(k.root, "link")
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := newNode(t)
			k.restart()
			b := newBench(t, formats.GatekeeperDenies)
			b.config.Path = path(k)
			b.start()
			k.write(1)
			b.awaitAll(k.want())
			k.restart()
			b.awaitTrouble("1.log, which docket does not read: set path to " + k.dir() + "/")
		})
	}
}

// A neighbour whose name rotation could give, and that another program writes to, is no
// predecessor: it had its name while the log had its own.
func TestANeighbourIsNoPredecessor(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"manager-1.log", "manager.1.log", "manager.log.1", "manager.log-2"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, formats.JSON)
			other := filepath.Join(b.dir, name)
			appendTo(t, other, "{\"other\":1}\n")
			b.write("{\"n\":1}\n")
			b.start()
			b.wantStored([]string{`{"n":1}`})
			want := []string{`{"n":1}`}
			for n := 2; n < 6; n++ {
				if n == 4 { // a restart knows it
					b.stop()
				}
				appendTo(t, other, "{\"other\":1}\n")
				b.check(os.Rename(b.path, filepath.Join(b.dir, fmt.Sprintf("manager.log.%d", 10-n))))
				text := fmt.Sprintf("{\"n\":%d}", n)
				b.write(text + "\n")
				if n == 4 {
					b.start()
				}
				want = append(want, text)
				b.wantStored(want)
			}
		})
	}
}
