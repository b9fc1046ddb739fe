package gatekeepersource

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/decision"
	"github.com/docket-export/docket/sources/sourcetest"
)

// wantOnce compares what was stored of the runs, in any order of runs, with what their
// files held: each line once, in its place, and one run record after them.
func wantOnce(t *testing.T, lines []sourcetest.Line, files map[string][]string) {
	t.Helper()
	got := map[string][]string{}
	for _, l := range lines {
		if l.Refused != "" {
			t.Errorf("got the line %.80q refused as %s", l.Text, l.Refused)
		}
		got[l.Producer] = append(got[l.Producer], l.Text)
		if l.Number != uint64(len(got[l.Producer])) {
			t.Errorf("%s: got number %d for line %d", l.Producer, l.Number, len(got[l.Producer]))
		}
	}
	if len(got) != len(files) {
		t.Errorf("got lines of %d files, want %d", len(got), len(files))
	}
	for producer, texts := range got {
		runs := runsOf(t, texts)
		if len(runs) != 1 || len(runsOf(t, texts[len(texts)-1:])) != 1 {
			t.Errorf("%s: got %d run records, want one at the end", producer, len(runs))
			continue
		}
		wantTexts(t, texts[:len(texts)-1], files[runs[0].ID])
	}
}

// A process that dies after any number of records has become durable leaves nothing out
// and nothing twice, whatever has become of its state and of the files.
func TestCrashAnywhere(t *testing.T) {
	t.Parallel()
	const runs, perRun = 3, 4 // violations
	total := runs * (perRun + 3)
	for name, damage := range map[string]func(t *testing.T, w *world){
		"everything is there":  func(*testing.T, *world) {},
		"the state is lost":    func(_ *testing.T, w *world) { os.Remove(w.statePath()) },
		"the state is damaged": func(_ *testing.T, w *world) { os.WriteFile(w.statePath(), []byte(`{"done":`), 0o600) },
		"the files are gone":   func(_ *testing.T, w *world) { w.remove("."); w.mkdir("audit-channel") },
		"the claims are lost":  func(_ *testing.T, w *world) { os.RemoveAll(filepath.Join(w.state, "claims")) },
		"all of it is lost":    func(_ *testing.T, w *world) { os.RemoveAll(w.state) },
		"gone without a state": func(_ *testing.T, w *world) { w.remove("audit-channel"); os.Remove(w.statePath()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for durable := 0; durable <= total; durable += few(5) {
				w := newWorld(t)
				w.pieceBytes = 1 + 150*(durable%3) // several pieces are in the air
				w.intake.Hold()
				files := map[string][]string{}
				for n := range runs {
					files[runAt(n)] = auditLines(runAt(n), perRun)
					w.put(fileOf(runAt(n))+".log", text(files[runAt(n)]))
				}
				w.start()
				w.eventually("claims", func() bool { return countFiles(w, "claims") == runs })
				for settled := 0; settled < durable; {
					w.eventually("pending lines", func() bool { return w.intake.Pending() > 0 })
					n := min(w.intake.Pending(), durable-settled)
					w.intake.Settle(n)
					settled += n
				}
				w.crash()
				damage(t, w)
				w.start()
				w.awaitLines(total)
				w.awaitIdle()
				w.stop()
				wantOnce(t, w.intake.Lines(), files)
				if lost := w.source.(*source).Report().Lost; lost != 0 {
					t.Errorf("got %d lost, want 0", lost)
				}
				if t.Failed() {
					t.Fatalf("with %d lines durable at the crash\n%s", durable, w.log.String())
				}
			}
		})
	}
}

func countFiles(w *world, dir string) int {
	entries, err := os.ReadDir(filepath.Join(w.state, dir))
	if err != nil {
		return 0
	}
	return len(entries)
}

// A restart reads nothing again that the state knows.
func TestRestartReadsNothingAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put(fileOf(runAt(0))+".log", text(auditLines(runAt(0), 3)))
	w.start()
	w.awaitRuns(1)
	w.awaitIdle()
	w.stop()
	w.intake = sourcetest.New() // which has forgotten the positions, as after a day
	t.Cleanup(w.intake.Close)
	w.start()
	w.put(fileOf(runAt(1))+".log", text(auditLines(runAt(1), 1)))
	w.awaitRuns(1)
	wantTexts(t, w.texts()[:3], auditLines(runAt(1), 1))
}

// What a stop does not come to is read by the next process, even if Gatekeeper has
// deleted it by then.
func TestStopWhileTheQueueIsHeld(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.intake.Hold()
	files := map[string][]string{}
	w.stopWait = time.Second / 10
	for n := range 3 {
		files[runAt(n)] = auditLines(runAt(n), 2)
		w.put(fileOf(runAt(n))+".log", text(files[runAt(n)]))
	}
	w.start()
	w.eventually("claims", func() bool { return countFiles(w, "claims") == 3 })
	w.stop()
	w.remove("audit-channel")
	w.intake.Crash()
	w.newIntake()
	w.start()
	w.awaitRuns(3)
	w.awaitIdle()
	w.stop()
	wantOnce(t, w.intake.Lines(), files)
}

// A stop reads what is there: of an emptyDir nothing may be left afterwards.
func TestStopReadsWhatIsThere(t *testing.T) {
	w := newWorld(t)
	w.stopWait = await.Left(t)
	w.intake.Hold()
	files := map[string][]string{}
	for n := range 3 {
		files[runAt(n)] = auditLines(runAt(n), 2)
		w.put(fileOf(runAt(n))+".log", text(files[runAt(n)]))
	}
	w.start()
	w.eventually("pending lines", func() bool { return w.intake.Pending() == 5 })
	w.cancel()
	w.eventually("end of the scanner", func() bool { return !scans() })
	w.intake.Release()
	w.stop()
	wantOnce(t, w.intake.Lines(), files)
}

// scans reports whether there is a goroutine that a source has started.
func scans() bool {
	return strings.Contains(stacks(), "(*source).Run.func")
}

// stacks are those of all goroutines.
func stacks() string {
	text := make([]byte, 1<<20)
	return string(text[:runtime.Stack(text, true)])
}

// A run that was seen and then vanished while docket was not running is reported as lost,
// once, however often docket dies meanwhile.
func TestVanishedRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	d := &driver{t: t, dir: filepath.Join(w.path, "audit-channel"), maxResults: 0}
	_, end := d.begin(runAt(0))
	w.eventually("note of a file that was seen", func() bool {
		data, _ := os.ReadFile(w.statePath())
		return strings.Contains(string(data), "2026-11-21T00_00_00Z.txt")
	})
	w.crash()
	old, err := os.ReadFile(w.statePath())
	if err != nil {
		t.Fatal(err)
	}
	end() // and it is deleted
	w.intake.Hold()
	w.start()
	w.eventually("record of the gap", func() bool { return w.intake.Pending() == 1 })
	w.crash()
	w.start()
	r := w.awaitRuns(1)[0]
	if r.ID != runAt(0) || r.Complete || r.Reason != decision.Vanished || r.File != "audit-channel/2026-11-21T00_00_00Z.txt" {
		t.Errorf("got %+v, want a vanished run", r)
	}
	if lost := w.source.(*source).Report().Lost; lost != 1 {
		t.Errorf("got %d lost, want 1", lost)
	}
	w.eventually("state without it", func() bool {
		data, _ := os.ReadFile(w.statePath())
		return !strings.Contains(string(data), "2026-11-21T00_00_00Z.txt")
	})
	w.stop()
	w.newIntake()
	if err := os.WriteFile(w.statePath(), old, 0o600); err != nil { // as if it had died before it was written
		t.Fatal(err)
	}
	w.start()
	w.put(fileOf(runAt(1))+".log", text(auditLines(runAt(1), 1)))
	w.awaitRuns(2)
	if got := len(w.texts()); got != 1+3+1 {
		t.Errorf("got %d lines, want the gap once and another run", got)
	}
}

// The retention of Gatekeeper deletes every file but one while docket's queue takes nothing:
// what docket has seen finished is stored all the same.
func TestRetentionWhileTheQueueIsHeld(t *testing.T) {
	t.Parallel()
	const runs, perRun = 20, 25
	w := newWorld(t)
	w.intake.Hold()
	w.start()
	d := &driver{t: t, dir: filepath.Join(w.path, "audit-channel"), maxResults: 1}
	files := map[string][]string{}
	for n := range runs {
		id := runAt(n)
		files[id] = auditLines(id, perRun)
		write, end := d.begin(id)
		for _, line := range files[id][1 : perRun+1] {
			write(line)
		}
		end()
		w.eventually("claim", func() bool { return countFiles(w, "claims") == n+1 })
	}
	w.intake.Release()
	got := w.awaitRuns(runs)
	w.awaitIdle()
	w.stop()
	wantOnce(t, w.intake.Lines(), files)
	for _, r := range got {
		if !r.Complete || r.Violations != perRun {
			t.Errorf("got %+v, want a complete run of %d violations", r, perRun)
		}
	}
	if lost := w.source.(*source).Report().Lost; lost != 0 {
		t.Errorf("got %d lost, want 0", lost)
	}
}
