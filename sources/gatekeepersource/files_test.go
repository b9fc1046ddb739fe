package gatekeepersource

import (
	"context"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/decision"
	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/sources"
	"github.com/docket-export/docket/sources/sourcetest"
)

// What is in a channel and is no file of Gatekeeper is left alone and reported, and
// stands in nobody's way.
func TestOddFiles(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		make func(t *testing.T, place string) error
		file string
		want string
	}{
		"foreign file":              {file: "state.json", want: "audit-channel/state.json", make: write("{}\n")},
		"foreign log":               {file: "manager.log", want: "audit-channel/manager.log", make: write("{}\n")},
		"odd segment":               {file: "admission-yesterday.log", want: "audit-channel/admission-yesterday.log", make: write("{}\n")},
		"name that is no text":      {file: "\xff\xfe.log", want: "audit-channel/\xff\xfe.log", make: write("{}\n")},
		"link to a file":            {file: "2026-11-21T00_05_00Z.log", want: "symbolic link", make: linkTo("secret")},
		"link to a segment":         {file: path.Base(segmentAt(1)) + ".log", want: "symbolic link", make: linkTo("secret")},
		"link to a directory":       {file: "more", want: "symbolic link", make: linkTo(".")},
		"link to nothing":           {file: "2026-11-21T00_06_00Z.txt", want: "symbolic link", make: linkTo("nowhere")},
		"pipe":                      {file: "2026-11-21T00_05_00Z.log", want: "2026-11-21T00_05_00Z.log", make: pipe},
		"directory named as a run":  {file: "2026-11-21T00_05_00Z.log", make: func(_ *testing.T, place string) error { return os.Mkdir(place, 0o700) }},
		"directories without bound": {file: "d", want: "audit-channel/d/d/d/d", make: func(_ *testing.T, place string) error { return os.MkdirAll(place+strings.Repeat("/d", 99), 0o700) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			if err := os.WriteFile(filepath.Join(filepath.Dir(w.path), "secret"), []byte(text(auditLines(runAt(5), 3))), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := test.make(t, filepath.Join(w.path, "audit-channel", test.file)); err != nil {
				t.Fatal(err)
			}
			w.put(fileOf(runAt(0))+".log", text(auditLines(runAt(0), 1)))
			w.start()
			w.awaitRuns(1)
			w.awaitIdle()
			wantTexts(t, w.texts()[:3], auditLines(runAt(0), 1))
			// A file may be read before the look that has found it ends with its report.
			w.eventually("trouble that says "+test.want, func() bool { return strings.Contains(w.source.(*source).Report().Trouble, test.want) })
			if got := w.source.(*source).Report().Trouble; test.want == "" && got != "" {
				t.Errorf("got the trouble %q, want none", got)
			}
			w.remove("audit-channel/" + test.file)
			w.eventually("end of the trouble", func() bool { return w.source.(*source).Report().Trouble == "" })
			if got := len(w.texts()); got != 4 {
				t.Errorf("got %d lines, want 4: %q", got, w.texts())
			}
		})
	}
}

func write(content string) func(*testing.T, string) error {
	return func(_ *testing.T, place string) error { return os.WriteFile(place, []byte(content), 0o600) }
}

func linkTo(name string) func(*testing.T, string) error {
	return func(_ *testing.T, place string) error {
		return os.Symlink(filepath.Join(filepath.Dir(filepath.Dir(filepath.Dir(place))), name), place)
	}
}

func pipe(_ *testing.T, place string) error { return unix.Mkfifo(place, 0o600) }

// Gatekeeper removes the whole path when its Connection changes, and makes it again.
func TestPathIsRemovedAndMadeAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.intake.Hold()
	files := map[string][]string{}
	put := func(n int) {
		files[runAt(n)] = auditLines(runAt(n), 500)
		w.put(fileOf(runAt(n))+".log", text(files[runAt(n)]))
	}
	put(0)
	put(1)
	w.start()
	w.eventually("claims", func() bool { return countFiles(w, "claims") == 2 })
	w.eventually("pending lines", func() bool { return w.intake.Pending() > 0 })
	w.remove(".")
	w.eventually("word of it", func() bool { return strings.Contains(w.source.(*source).Report().Trouble, "does not exist") })
	w.mkdir("audit-channel")
	put(2)
	w.eventually("end of the trouble", func() bool { return w.source.(*source).Report().Trouble == "" })
	w.intake.Release()
	w.awaitRuns(3)
	w.awaitIdle()
	put(3)
	w.awaitRuns(4)
	w.stop()
	wantOnce(t, w.intake.Lines(), files)
	if lost := w.source.(*source).Report().Lost; lost != 0 {
		t.Errorf("got %d lost, want 0", lost)
	}
}

// Where files are held open, their deletion loses nothing, and a restart after it reports a
// gap.
func TestHeldOpen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.redaction = &sourcetest.Censor{Text: "nothing"}
	w.intake.Hold()
	w.put(fileOf(runAt(0))+".log", text(auditLines(runAt(0), 2)))
	w.put(fileOf(runAt(1))+".log", text(auditLines(runAt(1), 2)))
	w.start()
	w.eventually("two files held open", func() bool { return w.openFiles(".log") == 2 })
	w.awaitSeen(fileOf(runAt(1)) + ".log")
	w.remove("audit-channel")
	w.eventually("pending lines", func() bool { return w.intake.Pending() == 5 })
	w.intake.Settle(5) // the first run
	w.eventually("pending lines of the second run", func() bool { return w.intake.Pending() == 5 })
	w.crash()
	w.start()
	runs := w.awaitRuns(2)
	if runs[0].Reason != decision.StartToEnd || runs[1].ID != runAt(1) || runs[1].Reason != decision.Vanished {
		t.Errorf("got %+v, want one run whole and one vanished", runs)
	}
}

// Somebody removes what docket keeps while it runs: what Gatekeeper still has is read,
// and the rest is known to be lost.
func TestClaimsAreRemoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.intake.Hold()
	for n := range 3 {
		w.put(fileOf(runAt(n))+".log", text(auditLines(runAt(n), 1)))
	}
	w.start()
	w.eventually("claims", func() bool { return countFiles(w, "claims") == 3 })
	w.eventually("pending lines", func() bool { return w.intake.Pending() == 4 })
	if err := os.RemoveAll(filepath.Join(w.state, "claims")); err != nil {
		t.Fatal(err)
	}
	w.remove(fileOf(runAt(1)) + ".log")
	w.intake.Release()
	reasons := map[string]decision.RunReason{}
	for _, r := range w.awaitRuns(3) {
		reasons[r.ID] = r.Reason
	}
	want := map[string]decision.RunReason{runAt(0): decision.StartToEnd, runAt(1): decision.Vanished, runAt(2): decision.StartToEnd}
	if !maps.Equal(reasons, want) {
		t.Errorf("got %v, want %v", reasons, want)
	}
	w.put(fileOf(runAt(3))+".log", text(auditLines(runAt(3), 1)))
	w.awaitRuns(4)
	w.awaitIdle()
	size := uint64(len(text(auditLines(runAt(1), 1))))
	if got := w.source.(*source).Report(); got.Lost != 1 || got.LostBytes != size || got.Trouble != "" || got.Audits.Complete != 3 || got.Audits.Incomplete != 1 {
		t.Errorf("got the report %+v, want 1 lost of %d bytes, no trouble, and all audits but that complete", got, size)
	}
}

// A run as an ordinary user: what may not be read is reported and waited for, and what
// may be read is read. The test runs itself as that user where it is the superuser, whom
// nothing is denied.
func TestPermissionDenied(t *testing.T) {
	t.Parallel()
	if os.Getuid() == 0 {
		runAsUser(t)
		return
	}
	w := newWorld(t)
	w.mkdir("closed")
	w.put(fileOf(runAt(0))+".log", text(auditLines(runAt(0), 1)))
	w.put(fileOf(runAt(1))+".log", text(auditLines(runAt(1), 1)))
	w.put("closed/"+path.Base(fileOf(runAt(2)))+".log", text(auditLines(runAt(2), 1)))
	chmod := func(mode os.FileMode, name string) {
		t.Helper()
		if err := os.Chmod(filepath.Join(w.path, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	chmod(0, fileOf(runAt(0))+".log")
	chmod(0, "closed")
	t.Cleanup(func() { os.Chmod(filepath.Join(w.path, "closed"), 0o700) })
	w.start()
	if r := w.awaitRuns(1)[0]; r.ID != runAt(1) {
		t.Errorf("got the run %s, want the one that may be read", r.ID)
	}
	w.eventually("trouble with two files that are denied", func() bool {
		trouble := w.source.(*source).Report().Trouble
		return strings.Contains(trouble, "permission denied") && strings.Contains(trouble, "1 more")
	})
	if !strings.Contains(w.log.String(), "uid 1000, gid 999") {
		t.Errorf("got the log %s\nwant it to say which user to run as", w.log.String())
	}
	chmod(0o600, fileOf(runAt(0))+".log")
	chmod(0o700, "closed")
	w.awaitRuns(3)
	w.eventually("end of the trouble", func() bool { return w.source.(*source).Report().Trouble == "" })
	if report := w.source.(*source).Report(); report.Lost != 0 {
		t.Errorf("got %d lost, want 0", report.Lost)
	}
	for n, mode := range []os.FileMode{0, 0o400} { // the names can be read with the second, and no more
		chmod(mode, "closed")
		w.put(fileOf(runAt(10+n))+".log", text(auditLines(runAt(10+n), 1)))
		w.awaitRuns(4 + n)
		w.awaitIdle()
		if data, err := os.ReadFile(w.statePath()); !strings.Contains(string(data), "closed%2F") {
			t.Errorf("got the state %s, %v, want it to know what was read in a directory with the mode %o", data, err, mode)
		}
	}
	chmod(0o700, "closed")
	w.stop()

	// One that is never readable, and goes: it was seen, so it is known to be lost.
	w.put(fileOf(runAt(4))+".log", text(auditLines(runAt(4), 1)))
	chmod(0, fileOf(runAt(4))+".log")
	w.start()
	w.awaitSeen(fileOf(runAt(4)) + ".log")
	chmod(0, "audit-channel")
	t.Cleanup(func() { os.Chmod(filepath.Join(w.path, "audit-channel"), 0o700) })
	w.eventually("trouble", func() bool { return strings.Contains(w.source.(*source).Report().Trouble, "cannot read") })
	if lost := w.source.(*source).Report().Lost; lost != 0 {
		t.Errorf("got %d lost from a directory that cannot be read, want 0", lost)
	}
	chmod(0o700, "audit-channel")
	w.remove(fileOf(runAt(4)) + ".log")
	if r := w.awaitRuns(6)[5]; r.ID != runAt(4) || r.Reason != decision.Vanished {
		t.Errorf("got %+v, want the run reported as vanished", r)
	}
	w.stop()

	// And a directory that nothing may be deleted in.
	w.config.DeleteAfterRead = true
	chmod(0o500, "audit-channel")
	w.start()
	w.eventually("trouble", func() bool {
		return strings.Contains(w.source.(*source).Report().Trouble, "cannot delete read files")
	})
	chmod(0o700, "audit-channel")
	w.eventually("deletion", func() bool { return len(w.files()) == 0 })
	w.eventually("end of the trouble", func() bool { return w.source.(*source).Report().Trouble == "" })
}

func runAsUser(t *testing.T) {
	t.Helper()
	base := t.TempDir()
	for _, dir := range []string{base, filepath.Dir(base)} { // it must reach what it makes below
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Dir = base
	cmd.Env = append(os.Environ(), "TMPDIR="+base, "HOME="+base)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 1000, Gid: 999}}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("as uid 1000: %v\n%s", err, out)
	}
}

// The state must not lie where Gatekeeper deletes it.
func TestStateBelowPath(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(filepath.Dir(w.path), link); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{w.path, filepath.Join(link, filepath.Base(w.path))} {
		src := w.config.New(sources.Env{Name: "gk", MaxRecordBytes: maxRecord, StateDir: disk.At(filepath.Join(dir, "docket", "gk")), Log: slog.New(slog.DiscardHandler)})
		err := src.Run(context.Background(), w.intake, func() { t.Error("the source is ready") })
		if err == nil || !strings.Contains(err.Error(), "queue.directory must not be below "+w.path) {
			t.Errorf("state below %s: got %v, want it to say where the queue must not lie", dir, err)
		}
	}
}

// Where something is to be redacted no file of Gatekeeper's is kept below the state directory:
// it is held open. Files that cannot be held for their number stay where they are and are
// read later.
func TestTooManyToHold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.redaction = &sourcetest.Censor{Text: "nothing"}
	w.intake.Hold()
	files := map[string][]string{}
	const maxOpen = 256
	for n := range maxOpen + 50 {
		files[runAt(n)] = auditLines(runAt(n), 1)
		w.put(fileOf(runAt(n))+".log", text(files[runAt(n)]))
	}
	w.start()
	w.eventually("trouble", func() bool { return strings.Contains(w.log.String(), "too many files wait to be read") })
	if got := w.openFiles(".log"); got != maxOpen {
		t.Errorf("got %d files held open, want %d", got, maxOpen)
	}
	if _, err := os.Stat(filepath.Join(w.state, "claims")); !os.IsNotExist(err) {
		t.Errorf("got %v of the directory of claims, want none", err)
	}
	w.intake.Release()
	w.awaitRuns(len(files))
	wantOnce(t, w.intake.Lines(), files)
	w.eventually("end of the trouble", func() bool { return !strings.Contains(w.source.(*source).Report().Trouble, "too many") })
	if lost := w.source.(*source).Report().Lost; lost != 0 {
		t.Errorf("got %d lost, want 0", lost)
	}
}

// openFiles is how often this process has a file below the path open whose name ends so.
func (w *world) openFiles(suffix string) int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		w.t.Fatal(err)
	}
	n := 0
	for _, e := range entries {
		target, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err == nil && strings.HasPrefix(target, w.path) && strings.HasSuffix(strings.TrimSuffix(target, " (deleted)"), suffix) {
			n++
		}
	}
	return n
}
