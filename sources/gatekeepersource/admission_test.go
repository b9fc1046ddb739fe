package gatekeepersource

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// segmentAt is the stem of the n-th segment.
func segmentAt(n int) string {
	at := time.Date(2026, 11, 21, 8, 0, n, 213551869, time.UTC)
	return fmt.Sprintf("audit-channel/admission-%s-%016x", at.Format(segmentTime), 0x8ccf7d380018b3ee+uint64(n))
}

func admissionLines(n, count int) []string {
	var lines []string
	for i := range count {
		lines = append(lines, fmt.Sprintf(`{"id":"uid-%d-%d","eventType":"violation_admission","kind":"K8sAllowedRepos","name":"repos","message":"m","dryRun":false}`, n, i))
	}
	return lines
}

func gapLine(file string) string {
	return fmt.Sprintf(`{"eventType":"docket.export.gap","file":%q,"reason":"Vanished"}`, file)
}

// segmentWriter holds the lock of a segment, as Gatekeeper does while it writes it.
func (w *world) openSegment(stem string, lines []string) *os.File {
	w.t.Helper()
	f, err := os.OpenFile(filepath.Join(w.path, stem+".open"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o640)
	if err == nil {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	if err == nil && len(lines) > 0 {
		_, err = f.WriteString(text(lines))
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { f.Close() })
	return f
}

func (w *world) rename(from, to string) {
	w.t.Helper()
	if err := os.Rename(filepath.Join(w.path, from), filepath.Join(w.path, to)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) awaitSeen(file string) {
	w.t.Helper()
	w.eventually("note of "+file, func() bool {
		data, _ := os.ReadFile(w.statePath())
		return strings.Contains(string(data), `"`+filepath.Base(file)+`"`)
	})
}

func TestSegments(t *testing.T) {
	t.Parallel()
	one, two := segmentAt(1), segmentAt(2)
	lines := admissionLines(1, 3)
	for name, test := range map[string]struct {
		play func(w *world)
		want []string
		lost uint64
	}{
		"finished": {
			play: func(w *world) { w.put(one+".log", text(lines)); w.start() },
			want: lines,
		},
		"recovered": {
			play: func(w *world) { w.put(one+".recovered.log", text(lines)); w.start() },
			want: lines,
		},
		"being deleted when it is first seen": {
			play: func(w *world) { w.put(one+".log.deleting", text(lines)); w.start() },
			want: lines,
		},
		"being deleted after it was read": {
			play: func(w *world) {
				w.put(one+".log", text(lines))
				w.start()
				w.awaitLines(3)
				w.awaitIdle()
				w.rename(one+".log", one+".log.deleting")
				w.remove(one + ".log.deleting")
			},
			want: lines,
		},
		"rotated": {
			play: func(w *world) {
				w.start()
				f := w.openSegment(one, lines)
				w.awaitSeen(one + ".open")
				w.rename(one+".open", one+".log")
				f.Close()
			},
			want: lines,
		},
		"rotated and deleted at once": {
			play: func(w *world) {
				w.start()
				f := w.openSegment(one, lines)
				w.awaitSeen(one + ".open")
				w.rename(one+".open", one+".log")
				f.Close()
				w.remove(one + ".log")
			},
			want: []string{gapLine(one + ".open")},
			lost: 1,
		},
		"recovered into another file": {
			play: func(w *world) {
				w.start()
				f := w.openSegment(one, lines)
				w.awaitSeen(one + ".open")
				w.put(one+".recovered.log", text(lines))
				f.Close()
				w.remove(one + ".open")
			},
			want: lines,
		},
		"vanished while docket was away": {
			play: func(w *world) {
				w.start()
				w.openSegment(one, lines)
				w.awaitSeen(one + ".open")
				w.stop()
				w.remove(one + ".open")
				w.start()
			},
			want: []string{gapLine(one + ".open")},
			lost: 1,
		},
		"recovered while docket was away": {
			play: func(w *world) {
				w.start()
				w.openSegment(one, lines)
				w.awaitSeen(one + ".open")
				w.stop()
				w.rename(one+".open", one+".recovered.log")
				w.start()
			},
			want: lines,
		},
		"removed without a record": {
			play: func(w *world) {
				w.start()
				f := w.openSegment(one, nil)
				w.awaitSeen(one + ".open")
				f.Close()
				w.remove(one + ".open")
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			test.play(w)
			// One more, so that what must not come would have come before it.
			last := admissionLines(2, 1)
			want := append(slices.Clone(test.want), last...)
			w.awaitLines(len(test.want))
			w.eventually("end of what was seen", func() bool {
				data, _ := os.ReadFile(w.statePath())
				return !strings.Contains(string(data), one[len("audit-channel/"):]+".open")
			})
			w.put(two+".log", text(last))
			w.awaitLines(len(want))
			w.awaitIdle()
			wantTexts(t, w.texts(), want)
			if got := w.source.(*source).Report(); got.Lost != test.lost || got.Trouble != "" {
				t.Errorf("got the report %+v, want %d lost and no trouble", got, test.lost)
			}
		})
	}
}

// Files are deleted once they are durable, and not before; those of Gatekeeper's that
// are being written stay.
func TestDeleteAfterRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.config.DeleteAfterRead = true
	w.intake.Hold()
	segment, recovered, run := segmentAt(1)+".log", segmentAt(2)+".recovered.log", fileOf(runAt(1))+".log"
	abandoned, live := fileOf(runAt(0))+".txt", fileOf(runAt(2))+".txt"
	w.put(segment, text(admissionLines(1, 2)))
	w.put(recovered, text(admissionLines(2, 2)))
	w.put(run, text(auditLines(runAt(1), 2)))
	w.put(abandoned, text(auditLines(runAt(0), 2)[:2]))
	w.put(live, text(auditLines(runAt(2), 2)[:2]))
	w.put("audit-channel/notes.txt", "mine\n")
	locked, err := os.Open(filepath.Join(w.path, segment)) // by another reader
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Flock(int(locked.Fd()), unix.LOCK_SH); err != nil {
		t.Fatal(err)
	}
	w.start()
	w.eventually("claims", func() bool { return countFiles(w, "claims") == 4 })
	w.eventually("pending lines", func() bool { return w.intake.Pending() > 0 })
	if got := w.files(); len(got) != 6 {
		t.Errorf("got the files %v before anything was durable, want all 6", got)
	}
	w.intake.Release()
	w.awaitLines(2 + 2 + 5 + 3)
	w.eventually("deletion of what was read", func() bool { return len(w.files()) == 3 })
	want := []string{segment, live, "audit-channel/notes.txt"}
	slices.Sort(want)
	wantTexts(t, w.files(), want)
	if got := w.source.(*source).Report().Trouble; !strings.Contains(got, "notes.txt") || strings.Contains(got, "more, see the log") {
		t.Errorf("got the trouble %q, want it about notes.txt alone", got)
	}
	locked.Close()
	w.put(segmentAt(3)+".log", text(admissionLines(3, 1)))
	w.eventually("deletion of what was locked", func() bool { return len(w.files()) == 2 })
}

// files are the names below the path.
func (w *world) files() []string {
	names, err := filepath.Glob(filepath.Join(w.path, "*", "*"))
	if err != nil {
		w.t.Fatal(err)
	}
	for i, name := range names {
		names[i], _ = filepath.Rel(w.path, name)
	}
	return names
}
