package filesink

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/docket-export/docket/sinks"
	"github.com/docket-export/docket/sinks/filesink/manifest"
)

// batchOf reads "1 2 F3-4 5": items, and gaps by the first letter of their reason.
func batchOf(t *testing.T, text string) sinks.Batch {
	t.Helper()
	reasons := map[byte]sinks.GapReason{'F': sinks.Filtered, 'D': sinks.Dropped, 'C': sinks.Corrupt, 'L': sinks.DeadLettered, 'U': manifest.Unknown}
	b := sinks.Batch{Queue: queueA}
	for _, word := range strings.Fields(text) {
		var g sinks.Gap
		if reason, ok := reasons[word[0]]; ok {
			g.Reason = reason
			if _, err := fmt.Sscanf(word[1:], "%d-%d", &g.From, &g.To); err != nil {
				t.Fatalf("%s: %v", word, err)
			}
			b.Gaps = append(b.Gaps, g)
			continue
		}
		var seq uint64
		if _, err := fmt.Sscan(word, &seq); err != nil {
			t.Fatalf("%s: %v", word, err)
		}
		b.Items = append(b.Items, batch(queueA, seq, seq).Items...)
	}
	return b
}

// textOf is what batchOf reads.
func textOf(p portion) string {
	var words []string
	for !p.empty() {
		if len(p.gaps) == 0 || len(p.items) > 0 && p.items[0].Seq < p.gaps[0].From {
			words = append(words, fmt.Sprint(p.items[0].Seq))
			p.items = p.items[1:]
			continue
		}
		letter := string(p.gaps[0].Reason[:1])
		if p.gaps[0].Reason == sinks.DeadLettered {
			letter = "L"
		}
		words = append(words, fmt.Sprintf("%s%d-%d", letter, p.gaps[0].From, p.gaps[0].To))
		p.gaps = p.gaps[1:]
	}
	return strings.Join(words, " ")
}

func TestUnseen(t *testing.T) {
	for name, tt := range map[string]struct {
		last  uint64
		lost  bool
		batch string
		want  string // "!" and a part of the error
	}{
		"nothing":                        {last: 3},
		"next":                           {last: 3, batch: "4 5", want: "4 5"},
		"known":                          {last: 3, batch: "1 2 3"},
		"known in part":                  {last: 3, batch: "2 3 4", want: "4"},
		"gap behind":                     {last: 3, batch: "4 F5-6", want: "4 F5-6"},
		"gap before":                     {last: 3, batch: "F4-5 6", want: "F4-5 6"},
		"only a gap":                     {last: 3, batch: "F4-5", want: "F4-5"},
		"gap known":                      {last: 3, batch: "F1-2 3"},
		"gap known in part":              {last: 3, batch: "F1-5 6", want: "F4-5 6"},
		"gap up to the last":             {last: 3, batch: "F2-3 4", want: "4"},
		"gaps of several reasons":        {last: 3, batch: "F4-5 D6-7 8 C9-9 L10-10", want: "F4-5 D6-7 8 C9-9 L10-10"},
		"hole before":                    {last: 3, batch: "6", want: "U4-5 6"},
		"hole between":                   {last: 3, batch: "4 7", want: "4 U5-6 7"},
		"hole before a gap":              {last: 3, batch: "4 F7-8", want: "4 U5-6 F7-8"},
		"hole behind a gap":              {last: 3, batch: "F4-5 7", want: "F4-5 U6-6 7"},
		"first of its queue":             {batch: "7 8", want: "7 8"},
		"first of its queue, a gap":      {batch: "F5-6 7", want: "F5-6 7"},
		"first of its queue, a hole":     {batch: "7 9", want: "7 U8-8 9"},
		"first after a lost position":    {lost: true, batch: "7 8", want: "U1-6 7 8"},
		"first seq after a lost one":     {lost: true, batch: "1 2", want: "1 2"},
		"item twice":                     {last: 3, batch: "4 4", want: "!4 to 4 where 5"},
		"items out of order":             {last: 3, batch: "5 4", want: "!4 to 4 where 6"},
		"item in a gap":                  {last: 3, batch: "F4-6 5", want: "!5 to 5 where 7"},
		"gaps that overlap":              {last: 3, batch: "F4-6 D6-7", want: "!6 to 7 where 7"},
		"gap that ends before it begins": {last: 3, batch: "F6-5", want: "!6 to 5"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &store{position: position{last: tt.last, lost: tt.lost}}
			got, err := s.unseen(batchOf(t, tt.batch))
			if words, bad := strings.CutPrefix(tt.want, "!"); bad {
				if err == nil || !strings.Contains(err.Error(), words) {
					t.Errorf("got %s, %v, want an error that says %q", textOf(got), err, words)
				}
				return
			}
			if text := textOf(got); err != nil || text != tt.want {
				t.Errorf("got %q, %v, want %q", text, err, tt.want)
			}
		})
	}
}

// TestManyGaps has more gaps in one batch than a line of the manifest can tell.
func TestManyGaps(t *testing.T) {
	dir := t.TempDir()
	b := sinks.Batch{Queue: queueA}
	for i := uint64(1); i <= manifest.MaxRanges+10; i++ {
		b.Gaps = append(b.Gaps, sinks.Gap{From: 2*i - 1, To: 2*i - 1, Reason: sinks.Filtered})
		b.Items = append(b.Items, sinks.Item{Seq: 2 * i, Record: []byte(record(queueA, 2*i))})
	}
	s := mustOpen(t, rotating(dir, 0), nil)
	mustSend(t, s, b)
	mustSend(t, s, b)
	mustFinish(t, s)
	a := mustAudit(t, dir)
	var ranges []int
	for _, e := range a.entries {
		ranges = append(ranges, e.Gaps.Len())
	}
	if want := []int{manifest.MaxRanges, 10}; !slices.Equal(ranges, want) {
		t.Errorf("files with %v gaps, want %v", ranges, want)
	}
	if got, want := len(a.fates), 2*len(b.Items); got != want {
		t.Errorf("the export accounts for %d seqs, want %d", got, want)
	}
}
