package filesink

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/sinks"
	"github.com/docket-export/docket/sinks/filesink/manifest"
)

// told is what the entries of a say, as "first-last:{gaps}".
func told(t *testing.T, a *audit) []string {
	t.Helper()
	list := []string{}
	for _, e := range a.entries {
		gaps, err := json.Marshal(e.Gaps)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, fmt.Sprintf("%d-%d:%s", e.FirstSeq, e.LastSeq, strings.ReplaceAll(string(gaps), `"`, "")))
	}
	return list
}

// TestGaps wants the manifest to account for what the sink did not get, also
// before, between and behind files, and over a restart.
func TestGaps(t *testing.T) {
	for name, tt := range map[string]struct {
		steps string // batches; / restarts, | finishes the active file
		want  []string
	}{
		"before the first file":      {"F1-4 , 5 6 |", []string{"5-6:{Filtered:1-4}"}},
		"known before, unknown ones": {"F3-4 5 |", []string{"5-5:{Filtered:3-4}"}},
		"between records":            {"1 F2-3 4 , 5 D6-6 7 |", []string{"1-7:{Dropped:6,Filtered:2-3}"}},
		"in several batches":         {"1 , F2-3 , F4-5 , D6-6 , 7 |", []string{"1-7:{Dropped:6,Filtered:2-5}"}},
		"behind the last record":     {"1 F2-3 | 4 |", []string{"1-3:{Filtered:2-3}", "4-4:{}"}},
		"over a boundary":            {"1 | F2-3 , 4 |", []string{"1-1:{}", "4-4:{Filtered:2-3}"}},
		"none to finish":             {"1 | F2-3 , F4-4 / F5-5 , 6 |", []string{"1-1:{}", "6-6:{Filtered:2-5}"}},
		"restarts":                   {"F1-1 / 2 F3-3 / 4 / L5-5 / C6-6 , 7 / |", []string{"2-7:{Corrupt:6,DeadLettered:5,Filtered:1,3}"}},
		"unknown":                    {"1 4 , 6 |", []string{"1-6:{Unknown:2-3,5}"}},
		"delivered again":            {"1 F2-3 , 1 F2-5 , 1 F2-5 6 / F2-5 6 7 |", []string{"1-7:{Filtered:2-5}"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := mustOpen(t, rotating(dir, 0), nil)
			var text []string
			for _, word := range strings.Fields(tt.steps) {
				if !slices.Contains([]string{",", "/", "|"}, word) {
					text = append(text, word)
					continue
				}
				mustSend(t, s, batchOf(t, strings.Join(text, " ")))
				text = nil
				switch word {
				case "/":
					mustClose(t, s)
					s = mustOpen(t, rotating(dir, 0), nil)
				case "|":
					mustFinish(t, s)
				}
			}
			if got := told(t, mustAudit(t, dir)); !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
			unknown := strings.Contains(fmt.Sprint(tt.want), "Unknown")
			if b := breakIn(t, dir); unknown != (b != nil) {
				t.Errorf("docket verify finds %+v, want a break: %v", b, unknown)
			}
		})
	}
}

// TestLostPosition wants what nobody can account for to be said, and what the
// manifest accounts for to be recognised.
func TestLostPosition(t *testing.T) {
	for name, tt := range map[string]struct {
		finished bool // 1 to 3 are
		next     string
		want     []string
	}{
		"finished files, nothing missing": {true, "4 5", []string{"1-3:{Filtered:2}", "4-5:{}"}},
		"finished files, delivered again": {true, "1 F2-2 3 4", []string{"1-3:{Filtered:2}", "4-4:{}"}},
		"finished files, a hole":          {true, "7 8", []string{"1-3:{Filtered:2}", "7-8:{Unknown:4-6}"}},
		"no finished files":               {false, "4 5", []string{"4-5:{Unknown:1-3}"}},
		"no finished files, all again":    {false, "1 F2-2 3 4", []string{"1-4:{Filtered:2}"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := mustOpen(t, rotating(dir, 0), nil)
			mustSend(t, s, batchOf(t, "1 F2-2 3"))
			if tt.finished {
				mustFinish(t, s)
			}
			mustClose(t, s)
			remove(t, dir, positionName)

			s = mustOpen(t, rotating(dir, 0), nil)
			mustClose(t, s) // that it was lost outlives a restart
			s = mustOpen(t, rotating(dir, 0), nil)
			if at, _ := resumed(t, s, lineageA, 1); !at.Lost {
				t.Errorf("got %+v, want that the position is lost", at)
			}
			mustSend(t, s, batchOf(t, tt.next))
			mustFinish(t, s)
			if got := told(t, mustAudit(t, dir)); !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
			if got, want := len(unnumbered(t, dir)) > 0, !tt.finished; got != want {
				t.Errorf("records set aside: %v, want %v", got, want)
			}
		})
	}
}

// TestGapLogDamaged wants a slot whose gaps cannot be read to count as damaged.
func TestGapLogDamaged(t *testing.T) {
	for name, tt := range map[string]struct {
		damage     func([]byte) []byte
		want       []string
		unnumbered []string
	}{
		"the newer slot's": {
			damage:     func(b []byte) []byte { b[len(b)-1] ^= 1; return b },
			want:       []string{"1-9:{Filtered:2-3,Unknown:5-8}"},
			unnumbered: records(queueA, 7, 7),
		},
		"cut": {
			damage:     func(b []byte) []byte { return b[:len(b)-1] },
			want:       []string{"1-9:{Filtered:2-3,Unknown:5-8}"},
			unnumbered: records(queueA, 7, 7),
		},
		"both slots'": {
			damage:     func(b []byte) []byte { b[gapLogStart+7] ^= 1; return b },
			want:       []string{"9-9:{Unknown:1-8}"},
			unnumbered: []string{record(queueA, 1), record(queueA, 4), record(queueA, 7)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := mustOpen(t, rotating(dir, 0), nil)
			mustSend(t, s, batchOf(t, "1 F2-3 4"))
			mustSend(t, s, batchOf(t, "D5-6 7"))
			mustClose(t, s)
			damage(t, dir, positionName, tt.damage)
			s = mustOpen(t, rotating(dir, 0), nil)
			mustSend(t, s, batchOf(t, "9"))
			mustFinish(t, s)
			if got := told(t, mustAudit(t, dir)); !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
			wantLines(t, "unnumbered", unnumbered(t, dir), tt.unnumbered)
		})
	}
}

func TestDecodeGaps(t *testing.T) {
	log, err := appendGap(nil, sinks.Gap{From: 3, To: 4, Reason: manifest.Unknown})
	if err != nil || len(log) != gapSize {
		t.Fatalf("got %d bytes, %v, want %d", len(log), err, gapSize)
	}
	badReason := append(slices.Clone(log[:gapSize-1]), byte(len(gapReasons)))
	for name, bad := range map[string][]byte{"cut": log[:gapSize-1], "reason": badReason, "twice": append(slices.Clone(log), log...)} {
		if gaps, err := decodeGaps(bad); err == nil {
			t.Errorf("%s: got %d gaps, want an error", name, gaps.Len())
		}
	}
}

// A filter that passes nothing for a long time leaves a position file of one gap.
func TestGapLogStaysSmall(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, rotating(dir, 0), nil)
	mustSend(t, s, batch(queueA, 1, 1))
	const last = 1 + fullGapLog/gapSize + manifest.MaxRanges
	b := sinks.Batch{Queue: queueA}
	for seq := uint64(2); seq <= last; seq++ {
		b.Gaps = append(b.Gaps, sinks.Gap{From: seq, To: seq, Reason: sinks.Filtered})
	}
	mustSend(t, s, b)
	mustSend(t, s, batch(queueA, last+1, last+1))
	for _, when := range []string{"at work", "opened again"} {
		p, ok := readAccepted(t, dir)
		if !ok || p.last != last+1 || !slices.Equal(slices.Collect(p.gaps.All()), []sinks.Gap{{From: 2, To: last, Reason: sinks.Filtered}}) {
			t.Errorf("%s: got seq %d, %v, want seq %d and one gap", when, p.last, ok, uint64(last+1))
		}
		if info, err := os.Stat(filepath.Join(dir, positionName)); err != nil || info.Size() >= gapLogStart+fullGapLog/2 {
			t.Errorf("%s: got %v, %v, want a small position file", when, info.Size(), err)
		}
		mustClose(t, s)
		s = mustOpen(t, rotating(dir, 0), nil)
		mustSend(t, s, batch(queueA, last+1, last+1)) // it has that
	}
	mustClose(t, s)
}

// Of a position file that is longer than docket has written it, no more is read than its
// slots say, and none that says more than docket writes.
func TestPositionFileIsReadWithABound(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, rotating(dir, 0), nil)
	mustSend(t, s, batch(queueA, 1, 3))
	mustClose(t, s)
	path := filepath.Join(dir, positionName)
	if err := os.Truncate(path, 3<<30); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	p, ok := readAccepted(t, dir)
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; !ok || p.last != 3 || n > 1<<20 {
		t.Errorf("got seq %d, %v with %d bytes of memory, want seq 3 with some KB", p.last, ok, n)
	}

	planted := positionOf(t, dir)
	planted.generation++
	planted.gaps = 3<<30 - gapLogStart
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteAt(planted.encode(nil), planted.offset()); err != nil {
		t.Fatal(err)
	}
	if _, err := readPosition(disk.At(dir).Join(positionName)); err == nil || !strings.Contains(err.Error(), positionName+": it names 3221213184 bytes of gaps") {
		t.Errorf("got %v, want that nobody writes that", err)
	}
	_, err = open(rotating(dir, 0), env(), nil)
	checkFailure(t, err, sinks.Misconfigured, "move it to another directory")
}
