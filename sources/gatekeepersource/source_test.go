package gatekeepersource

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/decision"
)

const (
	sampleRun    = "disk-export-audit-channel-2026-11-21T07_38_01Z.log"
	sampleFailed = "disk-export-failed-audit-looks-clean.log"
	sampleSpool  = "admission-20261121T080716.213551869Z-8ccf7d380018b3ee.log"
)

// A real export, byte for byte, and what is said of it.
func TestSamples(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run, failed, spool := sample(t, sampleRun), sample(t, sampleFailed), sample(t, sampleSpool)
	w.put("audit-channel/2026-11-21T07_38_01Z.log", run)
	w.put("audit-channel/2026-11-21T07_36_06Z.log", failed)
	w.put("audit-channel/"+sampleSpool, spool)
	w.start()

	texts := w.awaitLines(2 + 1 + 15 + 1 + 5)
	runs := runsOf(t, texts)
	if len(runs) != 2 {
		t.Fatalf("got %d runs, want 2", len(runs))
	}
	want := strings.Split(strings.TrimSuffix(failed, "\n"), "\n")
	want = append(want, texts[2])
	want = append(want, strings.Split(strings.TrimSuffix(run, "\n"), "\n")...)
	want = append(want, texts[18])
	want = append(want, strings.Split(strings.TrimSuffix(spool, "\n"), "\n")...)
	wantTexts(t, texts, want)

	if r := runs[0]; r.ID != "2026-11-21T07:36:06Z" || r.Complete || r.Reason != decision.NoRecords || r.Previous != nil {
		t.Errorf("failed audit: got %+v, want it incomplete for NoRecords", r)
	}
	r := runs[1]
	if r.ID != "2026-11-21T07:38:01Z" || !r.Complete || r.Reason != decision.StartToEnd || r.Violations != 13 || r.Invalid != 0 ||
		r.File != "audit-channel/2026-11-21T07_38_01Z.log" {
		t.Errorf("audit: got %+v, want it complete with 13 violations", r)
	}
	var counts []string
	for _, c := range r.Constraints {
		counts = append(counts, fmt.Sprint(c.Kind, "/", c.Name, " ", c.Violations))
	}
	wantTexts(t, counts, countsOf(run))
	if trouble := w.source.(*source).Report(); trouble.Trouble != "" || trouble.Lost != 0 {
		t.Errorf("got the report %+v, want nothing wrong", trouble)
	}
	w.eventually("a verdict on both", func() bool {
		a := w.source.(*source).Report().Audits
		return a.Complete == 1 && a.Incomplete == 1 && a.Last.ID == r.ID && a.Last.Complete && a.Last.Violations == 13
	})
}

// countsOf counts the violations by constraint in the plainest way.
func countsOf(text string) []string {
	counts := map[string]int{}
	for line := range strings.Lines(text) {
		if _, rest, ok := strings.Cut(line, `"kind":"`); ok {
			kind, rest, _ := strings.Cut(rest, `"`)
			_, rest, _ = strings.Cut(rest, `"name":"`)
			name, _, _ := strings.Cut(rest, `"`)
			counts[kind+"/"+name]++
		}
	}
	var all []string
	for name, n := range counts {
		all = append(all, fmt.Sprint(name, " ", n))
	}
	slices.Sort(all)
	return all
}

// An audit that failed after one with violations is flagged; what it is compared with is
// the last that was complete, also after a restart.
func TestFailedAuditIsFlagged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	w.put(fileOf(runAt(0))+".log", text(auditLines(runAt(0), 7)))
	w.awaitRuns(1)
	w.awaitIdle()
	w.stop()
	w.start()
	for n := 1; n <= 2; n++ {
		w.put(fileOf(runAt(n))+".log", text(auditLines(runAt(n), 0)))
		w.awaitRuns(1 + n)
	}
	for _, r := range runsOf(t, w.texts())[1:] {
		if r.Complete || r.Reason != decision.NoRecords || r.Previous == nil || *r.Previous != 7 || !strings.Contains(r.Detail, "had 7 violations") {
			t.Errorf("got %+v, want NoRecords after 7 violations", r)
		}
	}
	if got := strings.Count(w.log.String(), "not proven to be complete"); got != 1 {
		t.Errorf("got %d lines in the log for two such audits, want 1:\n%s", got, w.log.String())
	}
}

// Files wait for the reader in the order in which they were begun.
func TestOldestFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.intake.Hold()
	w.mkdir("b/nested")
	w.mkdir("a")
	w.put(fileOf(runAt(9))+".log", text(auditLines(runAt(9), 1)))
	w.start()
	w.eventually("reader that is busy", func() bool { return w.intake.Pending() > 0 })
	for n, channel := range []string{"b/nested", "a", "audit-channel", "a", "b/nested"} {
		name := strings.Replace(fileOf(runAt(n)), "audit-channel", channel, 1)
		w.put(name+".log", text(auditLines(runAt(n), 1)))
	}
	w.eventually("claims", func() bool { return countFiles(w, "claims") == 6 })
	w.intake.Release()
	var got []string
	for _, r := range w.awaitRuns(6)[1:] {
		got = append(got, r.File)
	}
	want := []string{
		"b/nested/2026-11-21T00_00_00Z.log", "a/2026-11-21T00_01_00Z.log", "audit-channel/2026-11-21T00_02_00Z.log",
		"a/2026-11-21T00_03_00Z.log", "b/nested/2026-11-21T00_04_00Z.log",
	}
	wantTexts(t, got, want)
}

// An abandoned run is read up to its last whole line once there is a newer one.
func TestAbandonedRun(t *testing.T) {
	t.Parallel()
	for name, tail := range map[string]struct {
		text string
		more []string // lines of it that are read
	}{
		"cut within a line":     {text: violationLine(runAt(0), 2)[:40]},
		"cut before a newline":  {text: violationLine(runAt(0), 2), more: []string{violationLine(runAt(0), 2)}},
		"cut after a line":      {},
		"zeros after a crash":   {text: strings.Repeat("\x00", 5000)},
		"cut within a long one": {text: `{"id":"` + strings.Repeat("x", 3<<20)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			lines := auditLines(runAt(0), 2)[:3]
			w.put(fileOf(runAt(0))+".txt", text(lines)+tail.text)
			w.start()
			d := &driver{t: t, dir: filepath.Join(w.path, "audit-channel"), maxResults: 3}
			_, end := d.begin(runAt(1))
			r := w.awaitRuns(1)[0]
			lines = append(lines, tail.more...)
			wantTexts(t, w.texts()[:len(w.texts())-1], lines)
			if r.ID != runAt(0) || r.Complete || r.Reason != decision.Abandoned || r.Violations != uint64(len(lines)-1) || r.Invalid != 0 {
				t.Errorf("got %+v, want an abandoned run with %d violations", r, len(lines)-1)
			}
			end()
			if r := w.awaitRuns(2)[1]; r.ID != runAt(1) || r.Reason != decision.NoRecords {
				t.Errorf("got %+v, want the newer run", r)
			}
		})
	}
}

// A run that is being written is neither locked nor read, however new others are; it is read
// once it is finished.
func TestLiveRunIsLeftAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.restFor = time.Hour
	w.start()
	d := &driver{t: t, dir: filepath.Join(w.path, "audit-channel"), maxResults: 9}
	write, end := d.begin(runAt(0))
	w.awaitSeen(fileOf(runAt(0)) + ".txt")
	w.put(fileOf(runAt(1))+".log", text(auditLines(runAt(1), 1)))
	if r := w.awaitRuns(1)[0]; r.ID != runAt(1) {
		t.Errorf("got the run %s, want the newer one, as the older is written", r.ID)
	}
	write(violationLine(runAt(0), 0))
	end()
	if r := w.awaitRuns(2)[1]; r.ID != runAt(0) || !r.Complete || r.Violations != 1 {
		t.Errorf("got %+v, want the older run complete", r)
	}
}

// A run that was ended is whole, although Gatekeeper has died before it renamed it.
func TestEndedRunIsNotAbandoned(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put(fileOf(runAt(0))+".txt", text(auditLines(runAt(0), 1)))
	w.put(fileOf(runAt(1))+".txt", text(auditLines(runAt(1), 1))+startLine(runAt(1))[:9]) // and another went on
	w.put(fileOf(runAt(2))+".log", text(auditLines(runAt(2), 1)))
	w.start()
	got := w.awaitRuns(3)
	if r := got[0]; r.ID != runAt(0) || !r.Complete {
		t.Errorf("got %+v, want the oldest run complete", r)
	}
	if r := got[1]; r.ID != runAt(1) || r.Complete || r.Reason != decision.Damaged || !strings.Contains(r.Detail, "9 bytes") {
		t.Errorf("got %+v, want a damaged run", r)
	}
}
