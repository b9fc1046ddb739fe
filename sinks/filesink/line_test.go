package filesink

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/docket-export/docket/internal/lineage"
	"github.com/docket-export/docket/sinks"
)

// lineageA is of a queue whose ids begin with queueA.
var lineageA = sinks.Lineage{{ID: queueA, First: 1}}

// started is the id of a start of a queue.
func started(name byte) string { return fmt.Sprintf("%04x0000-0000-4000-8000-000000000000", name) }

// startedAs is the id of the n-th of many starts.
func startedAs(n uint64) string { return fmt.Sprintf("%04x0000-0000-4000-8000-000000000000", n) }

// inOrder are the records of the files in dir, in the order in which they were finished.
func inOrder(t *testing.T, dir string) (list []string) {
	t.Helper()
	for _, e := range mustAudit(t, dir).entries {
		list = append(list, lines(t, filepath.Join(dir, e.Name))...)
	}
	return list
}

// lineageOf reads "A1 B6": the starts of a queue, and the first seq of each.
func lineageOf(t *testing.T, words ...string) (l sinks.Lineage) {
	t.Helper()
	for _, word := range words {
		var first uint64
		if _, err := fmt.Sscan(word[1:], &first); err != nil {
			t.Fatalf("%s: %v", word, err)
		}
		l = append(l, lineage.Incarnation{ID: started(word[0]), First: first})
	}
	return l
}

// resumed is what a sink says of itself to a docket whose queue has lineage l, and goes on with record next.
func resumed(t *testing.T, s *sink, l sinks.Lineage, next uint64) (at sinks.Position, found bool) {
	t.Helper()
	err := s.Resume(t.Context(), sinks.Queue{ID: queueA, Lineage: l}, func(told sinks.Position, is bool) (sinks.Position, error) {
		at, found = told, is
		return sinks.Position{Next: next, Lineage: l}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return at, found
}

// sendOf sends the records from first to last of a queue, a batch for each of its starts.
func sendOf(t *testing.T, s *sink, l sinks.Lineage, first, last uint64) (sent []string) {
	t.Helper()
	for n, i := range l {
		end := uint64(math.MaxUint64)
		if n+1 < len(l) {
			end = l[n+1].First
		}
		if from, to := max(first, i.First), min(last, end-1); from <= to {
			mustSend(t, s, batch(i.ID, from, to))
			sent = append(sent, records(i.ID, from, to)...)
		}
	}
	return sent
}

// A queue is set back, copied, or started again: each of its records is exported once, and the
// manifest accounts for all of them.
func TestResume(t *testing.T) {
	type run struct {
		lineage     []string
		from, to    uint64 // sent
		at, through uint64 // what the export has, and how much of that is of this queue
		again       uint64 // how many of from on it has already
	}
	for name, tt := range map[string]struct {
		runs []run
		want []string // the entries of the manifest
	}{
		"started again": {
			[]run{{[]string{"A1"}, 1, 5, 0, 0, 0}, {[]string{"A1", "B6"}, 4, 9, 5, 5, 2}, {[]string{"A1", "B6", "C10"}, 10, 11, 9, 9, 0}},
			[]string{"1-11"},
		},
		"started again without a record": {
			[]run{{[]string{"A1"}, 1, 5, 0, 0, 0}, {[]string{"A1", "B6"}, 6, 5, 5, 5, 0}, {[]string{"A1", "C6"}, 6, 7, 5, 5, 0}},
			[]string{"1-7"},
		},
		"a restored copy": {
			[]run{{[]string{"A1"}, 1, 12, 0, 0, 0}, {[]string{"A1", "B6"}, 4, 10, 12, 5, 2}},
			[]string{"1-12", "6-10"},
		},
		"a restored copy, of a queue that was started again": {
			[]run{{[]string{"A1"}, 1, 7, 0, 0, 0}, {[]string{"A1", "B8"}, 8, 12, 7, 7, 0}, {[]string{"A1", "C6"}, 4, 10, 12, 5, 2}},
			[]string{"1-12", "6-10"},
		},
		"the original and its copy in turn": {
			[]run{
				{[]string{"A1"}, 1, 12, 0, 0, 0}, {[]string{"A1", "B6"}, 6, 8, 12, 5, 0},
				{[]string{"A1", "C13"}, 11, 15, 12, 12, 2}, {[]string{"A1", "B6", "D9"}, 7, 9, 8, 8, 2},
				{[]string{"A1", "C13", "E16"}, 16, 16, 15, 15, 0},
			},
			[]string{"1-12", "6-8", "13-15", "9-9", "16-16"},
		},
		"a copy of a copy": {
			[]run{{[]string{"A1"}, 1, 12, 0, 0, 0}, {[]string{"A1", "B6"}, 6, 9, 12, 5, 0}, {[]string{"A1", "B6", "C8"}, 8, 8, 9, 7, 0}},
			[]string{"1-12", "6-9", "8-8"},
		},
		"a lost end that was delivered": {
			[]run{{[]string{"A1"}, 1, 5, 0, 0, 0}, {[]string{"A1", "B6"}, 6, 12, 5, 5, 0}, {[]string{"A1", "C13"}, 13, 15, 12, 5, 0}},
			[]string{"1-12", "13-15"},
		},
		"another queue": {
			[]run{{[]string{"A1"}, 1, 5, 0, 0, 0}, {[]string{"X1"}, 1, 7, 0, 0, 0}, {[]string{"A1", "B6"}, 6, 6, 5, 5, 0}},
			[]string{"1-5", "1-7", "6-6"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			var want []string
			for n, r := range tt.runs {
				s := mustOpen(t, rotating(dir, 0), nil)
				l := lineageOf(t, r.lineage...)
				at, found := resumed(t, s, l, r.from)
				if found != (r.at > 0) || at.Next != r.at+1 {
					t.Errorf("run %d: got %+v, %v, want seqs up to %d", n, at, found, r.at)
				}
				if through, _ := l.Through(at.Lineage, at.Next); through != r.through {
					t.Errorf("run %d: got %+v, which is the same up to %d, want %d", n, at, through, r.through)
				}
				want = append(want, sendOf(t, s, l, r.from, r.to)[r.again:]...)
				mustClose(t, s)
			}
			s := mustOpen(t, rotating(dir, 0), nil)
			mustFinish(t, s)
			wantLines(t, "exported", inOrder(t, dir), want)
			var got []string
			for _, e := range mustAudit(t, dir).entries {
				got = append(got, fmt.Sprintf("%d-%d", e.FirstSeq, e.LastSeq))
				if e.Gaps.Len() > 0 {
					t.Errorf("%s: got gaps %v", e.Name, e.Gaps)
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got the entries %v, want %v", got, tt.want)
			}
		})
	}
}

// However often docket is started, the export knows which start has stored which of its records,
// and a file is finished before there are more than its entry can name.
func TestManyStarts(t *testing.T) {
	dir := t.TempDir()
	const starts = 3*sinks.KeptIncarnations + 5
	var l sinks.Lineage
	var want []string
	for n := range uint64(starts) {
		l = l.Begin(startedAs(n), n+1)
		if n%7 == 3 {
			continue // the sink is away: these records come with the next start
		}
		s := mustOpen(t, rotating(dir, 0), nil)
		at, _ := resumed(t, s, l, 1)
		want = append(want, sendOf(t, s, l, at.Next, n+1)...)
		mustClose(t, s)
	}
	s := mustOpen(t, rotating(dir, 0), nil)
	mustFinish(t, s)
	wantLines(t, "exported", exported(t, dir), want)
	for _, e := range mustAudit(t, dir).entries {
		for seq := e.FirstSeq; seq <= e.LastSeq; seq++ {
			if got, want := e.Incarnations.At(seq), l.At(seq); got != want {
				t.Errorf("%s: record %d is of %s, want %s", e.Name, seq, got, want)
			}
		}
	}
}

// A sink that was away gets a backlog of more starts than a position can name.
func TestBacklogOfManyStarts(t *testing.T) {
	dir := t.TempDir()
	var l sinks.Lineage
	for n := range uint64(2*sinks.KeptIncarnations + 5) {
		l = l.Begin(startedAs(n), 3*n+1)
	}
	s := mustOpen(t, rotating(dir, 0), nil)
	var want []string
	for n := range uint64(len(l)) {
		resumed(t, s, l, 3*n+1)
		want = append(want, sendOf(t, s, l, 3*n+1, 3*n+3)...)
		if n%5 == 0 {
			mustClose(t, s)
			s = mustOpen(t, rotating(dir, 0), nil)
			resumed(t, s, l, 3*n+4)
		}
		sendOf(t, s, l, 1, 3*n+3) // a replay
	}
	mustFinish(t, s)
	wantLines(t, "exported", exported(t, dir), want)
	mustAudit(t, dir)
}

// What decide refuses changes nothing.
func TestResumeRefused(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, rotating(dir, 0), nil)
	resumed(t, s, lineageOf(t, "A1"), 1)
	want := sendOf(t, s, lineageOf(t, "A1"), 1, 5)
	refused := errors.New("refused")
	err := s.Resume(t.Context(), sinks.Queue{ID: queueA, Lineage: lineageOf(t, "A1", "B3")}, func(sinks.Position, bool) (sinks.Position, error) {
		return sinks.Position{}, refused
	})
	if !errors.Is(err, refused) {
		t.Errorf("got %v, want the error of the decision", err)
	}
	want = append(want, sendOf(t, s, lineageOf(t, "A1"), 4, 7)[2:]...)
	wantLines(t, "exported", exported(t, dir), want)
	if n := len(auditOf(t, dir).entries); n > 0 {
		t.Errorf("%d files are finished", n)
	}
}
