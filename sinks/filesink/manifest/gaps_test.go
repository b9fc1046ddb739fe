package manifest

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/docket-export/docket/sinks"
)

func gaps(t *testing.T, list ...sinks.Gap) (g Gaps) {
	t.Helper()
	for _, gap := range list {
		if err := g.Add(gap.From, gap.To, gap.Reason); err != nil {
			t.Fatal(err)
		}
	}
	return g
}

func TestGaps(t *testing.T) {
	g := gaps(t, sinks.Gap{From: 3, To: 3, Reason: sinks.Filtered}, sinks.Gap{From: 4, To: 6, Reason: sinks.Filtered},
		sinks.Gap{From: 7, To: 7, Reason: sinks.Dropped}, sinks.Gap{From: 9, To: 10, Reason: sinks.Filtered})
	if g.Len() != 3 {
		t.Errorf("got %d ranges, want 3", g.Len())
	}
	text, err := json.Marshal(g)
	if want := `{"Dropped":"7","Filtered":"3-6,9-10"}`; err != nil || string(text) != want {
		t.Errorf("got %s, %v, want %s", text, err, want)
	}
	var again Gaps
	if err := json.Unmarshal(text, &again); err != nil || !slices.Equal(slices.Collect(again.All()), slices.Collect(g.All())) {
		t.Errorf("got %v, %v, want %v", again, err, g)
	}
	for seq, want := range map[uint64]string{2: "", 3: "Filtered", 6: "Filtered", 7: "Dropped", 8: "", 10: "Filtered", 11: ""} {
		if gap, ok := g.Find(seq); ok != (want != "") || string(gap.Reason) != want {
			t.Errorf("%d: got %v, %t, want %q", seq, gap, ok, want)
		}
	}
	for name, gap := range map[string]sinks.Gap{
		"overlapping": {From: 10, To: 12, Reason: sinks.Filtered}, "before": {From: 1, To: 1, Reason: sinks.Filtered},
		"empty": {From: 12, To: 11, Reason: sinks.Filtered}, "from 0": {To: 11, Reason: sinks.Filtered}, "for no reason": {From: 12, To: 12},
	} {
		if err := g.Add(gap.From, gap.To, gap.Reason); err == nil || g.Len() != 3 {
			t.Errorf("%s: got %v and %d ranges, want an error and 3", name, err, g.Len())
		}
	}
}

// The most that a file can have fits in a line.
func TestMaxRanges(t *testing.T) {
	e := entry("a.ndjson", math.MaxUint64-4*MaxRanges, math.MaxUint64-1)
	for i := range uint64(MaxRanges) {
		from := e.FirstSeq + 1 + 3*i
		if err := e.Gaps.Add(from, from+1, reasons[i%2]); err != nil {
			t.Fatal(err)
		}
	}
	e.Records -= 2 * MaxRanges
	line, _, err := Chain{Key: testKey(1)}.Entry(e)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Decode(line[:len(line)-1]); err != nil {
		t.Error(err)
	}
	text := `{"Filtered":"1` + strings.Repeat(",1", MaxRanges) + `"}`
	if err := new(Gaps).UnmarshalJSON([]byte(text)); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("one more: got %v, want that there are too many", err)
	}
}

func TestFollow(t *testing.T) {
	filtered := func(from, to uint64) sinks.Gap { return sinks.Gap{From: from, To: to, Reason: sinks.Filtered} }
	for name, tt := range map[string]struct {
		last, first uint64
		before      []sinks.Gap // all of them before first
		from        uint64
		want        string
	}{
		"next":                         {last: 4, first: 5, from: 5},
		"first of its queue":           {first: 1, from: 1},
		"first, begun late":            {first: 100, from: 100},
		"first, with a gap":            {first: 3, before: []sinks.Gap{filtered(1, 2)}, from: 1},
		"first, gap and more missing":  {first: 4, before: []sinks.Gap{filtered(1, 2)}, from: 1, want: "seqs 3 to 3 are neither"},
		"gap between":                  {last: 4, first: 7, before: []sinks.Gap{filtered(5, 6)}, from: 5},
		"two gaps between":             {last: 4, first: 7, before: []sinks.Gap{filtered(5, 5), {From: 6, To: 6, Reason: sinks.Dropped}}, from: 5},
		"missing":                      {last: 4, first: 7, from: 5, want: "seqs 5 to 6 are neither"},
		"missing before the gap":       {last: 4, first: 7, before: []sinks.Gap{filtered(6, 6)}, from: 5, want: "seqs 5 to 5 are neither"},
		"missing behind the gap":       {last: 4, first: 7, before: []sinks.Gap{filtered(5, 5)}, from: 5, want: "seqs 6 to 6 are neither"},
		"record twice":                 {last: 4, first: 4, from: 5, want: "firstSeq 4 is not after 4"},
		"gap over what was there once": {last: 4, first: 7, before: []sinks.Gap{filtered(3, 6)}, from: 5, want: "gap 3-6 is not after 4"},
	} {
		t.Run(name, func(t *testing.T) {
			e := entry("a.ndjson", tt.first, tt.first+9)
			e.Gaps = gaps(t, tt.before...)
			if got := e.From(tt.last); got != tt.from {
				t.Errorf("got from %d, want %d", got, tt.from)
			}
			if err := e.Follow(tt.last); (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			if tt.want == "" {
				seqs := seqsOf(e, e.From(tt.last))
				if uint64(len(seqs)) != e.Records || seqs[0] != e.FirstSeq {
					t.Errorf("got seqs %s, want %d from %d on", fmt.Sprint(seqs), e.Records, e.FirstSeq)
				}
			}
		})
	}
}

// seqsOf are the seqs of the records of e, which covers what is from from on.
func seqsOf(e Entry, from uint64) (seqs []uint64) {
	for seq := from; seq <= e.LastSeq && len(seqs) < 100; seq++ {
		if _, isGap := e.Gaps.Find(seq); !isGap {
			seqs = append(seqs, seq)
		}
	}
	return seqs
}
