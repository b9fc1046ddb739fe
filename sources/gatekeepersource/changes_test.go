package gatekeepersource

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/config"
)

// runOf is a run with the violations that are given by number.
func runOf(id string, violations ...int) string {
	lines := []string{startLine(id)}
	for _, n := range violations {
		lines = append(lines, violationLine(id, n))
	}
	return text(append(lines, endLine(id)))
}

// summary is the changes that were stored, as "opened cart-1".
func summary(texts []string) []string {
	var all []string
	for _, text := range texts {
		kind, isChange := strings.CutPrefix(text, `{"eventType":"docket.audit.`)
		kind, _, _ = strings.Cut(kind, `"`)
		if !isChange || kind == "run" {
			continue
		}
		_, rest, _ := strings.Cut(text, `"resourceName":"`)
		name, _, _ := strings.Cut(rest, `"`)
		all = append(all, kind+" "+name)
	}
	return all
}

// Only what changes from one run to the next is sent, and nothing is resolved by a run
// that is not proven whole.
func TestDelta(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.config.Delta = true
	w.start()
	for n, content := range []string{
		runOf(runAt(0), 1, 2),
		runOf(runAt(1), 1, 2, 3),
		strings.TrimSuffix(runOf(runAt(2), 1), endLine(runAt(2))+"\n"), // incomplete
		runOf(runAt(3)), // failed, or clean: nobody can tell
		runOf(runAt(4), 1, 3),
		runOf(runAt(70), 3, 1), // an hour later
	} {
		id := []string{runAt(0), runAt(1), runAt(2), runAt(3), runAt(4), runAt(70)}[n]
		w.put(fileOf(id)+".log", content)
		w.awaitRuns(n + 1)
	}
	want := []string{
		"opened cart-1", "opened cart-2", "opened cart-3", "resolved cart-2", "snapshot cart-3", "snapshot cart-1",
	}
	wantTexts(t, summary(w.texts()), want)
	var counts []string
	for _, r := range runsOf(t, w.texts()) {
		counts = append(counts, fmt.Sprint(r.Violations, " ", *r.Opened, " ", *r.Resolved, " ", r.Snapshot, " ", r.Reason))
	}
	wantTexts(t, counts, []string{
		"2 2 0 true StartToEnd", "3 1 0 false StartToEnd", "1 0 0 false NoEnd", "0 0 0 false NoRecords", "2 0 1 false StartToEnd", "2 0 0 true StartToEnd",
	})
	if n := len(w.texts()); n != 6+6+11 {
		t.Errorf("got %d lines, want %d changes, 6 runs, and 6 starts with 5 ends", n, len(want))
	}
}

// The changes are the same, once each, wherever the process dies.
func TestDeltaCrashAnywhere(t *testing.T) {
	t.Parallel()
	runs := []string{runOf(runAt(0), 1, 2, 3), runOf(runAt(1), 2, 3, 4), runOf(runAt(2), 4, 5)}
	want := []string{
		"opened cart-1", "opened cart-2", "opened cart-3", "opened cart-4", "resolved cart-1",
		"opened cart-5", "resolved cart-2", "resolved cart-3",
	}
	total := len(want) + 3*len(runs)
	for name, damage := range map[string]func(w *world){
		"everything is there":        func(*world) {},
		"the state is lost":          func(w *world) { os.Remove(w.statePath()) },
		"the state is that of begin": func(w *world) { os.WriteFile(w.statePath(), []byte(`{"version":1}`), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for durable := 0; durable <= total; durable += few(4) {
				w := newWorld(t)
				w.config.Delta = true
				w.config.SnapshotInterval = config.Duration(100 * time.Hour)
				w.intake.Hold()
				for n, content := range runs {
					w.put(fileOf(runAt(n))+".log", content)
				}
				w.start()
				for settled := 0; settled < durable; {
					w.eventually("pending lines", func() bool { return w.intake.Pending() > 0 })
					n := min(w.intake.Pending(), durable-settled)
					w.intake.Settle(n)
					settled += n
				}
				w.crash()
				damage(w)
				w.start()
				w.awaitLines(total)
				w.awaitIdle()
				w.stop()
				got := w.texts()
				if wantTexts(t, summary(got), want); len(got) != total || len(runsOf(t, got)) != 3 {
					t.Errorf("got %d lines, want %d", len(got), total)
				}
				if t.Failed() {
					t.Fatalf("with %d lines durable at the crash\n%s", durable, w.log.String())
				}
			}
		})
	}
}

// The same while a run is half sent: its lines have other numbers then, and none of them
// may be taken for one that is durable.
func TestDeltaStateIsLostWithinARun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.config.Delta = true
	w.start()
	w.put(fileOf(runAt(0))+".log", runOf(runAt(0), 1, 2))
	w.awaitRuns(1)
	w.awaitIdle()
	w.intake.Hold()
	w.put(fileOf(runAt(1))+".log", runOf(runAt(1), 1, 2, 3, 4))
	w.eventually("pending lines", func() bool { return w.intake.Pending() == 5 })
	w.intake.Settle(2)
	w.crash()
	if err := os.RemoveAll(filepath.Join(w.state, "delta")); err != nil {
		t.Fatal(err)
	}
	w.start()
	w.awaitRuns(2)
	wantTexts(t, summary(w.texts()), []string{"opened cart-1", "opened cart-2", "opened cart-3", "opened cart-1", "opened cart-2", "opened cart-3", "opened cart-4"})
}
