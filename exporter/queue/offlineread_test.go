package queue

import (
	"slices"
	"testing"

	"github.com/docket-export/docket/exporter/queue/inspect"
	"github.com/docket-export/docket/exporter/queue/segment"
)

func TestReadRanges(t *testing.T) {
	opts := Options{Directory: t.TempDir(), SegmentBytes: 1}
	q := open(t, opts)
	storeNumbered(t, q, 1, 12, 3)
	closeQueue(t, q)
	o := offline(t, opts)
	for name, tt := range map[string]struct {
		r    segment.SeqRange
		want []string
	}{
		"all":               {everything, numbered(1, 12)},
		"first":             {segment.SeqRange{From: 1, To: 2}, numbered(1, 1)},
		"within a frame":    {segment.SeqRange{From: 5, To: 6}, numbered(5, 5)},
		"over segments":     {segment.SeqRange{From: 3, To: 11}, numbered(3, 10)},
		"last":              {segment.SeqRange{From: 12, To: 13}, numbered(12, 12)},
		"up to the largest": {segment.SeqRange{From: 11, To: ^uint64(0)}, numbered(11, 12)},
		"beyond the end":    {segment.SeqRange{From: 13, To: 20}, nil},
		"before the start":  {segment.SeqRange{From: 0, To: 3}, numbered(1, 2)},
		"none":              {segment.SeqRange{From: 4, To: 4}, nil},
	} {
		t.Run(name, func(t *testing.T) { equal(t, "records", readAll(t, o, tt.r), tt.want) })
	}
}

// Read gives the records that stand, and says which are lost where it was asked
// for them and nowhere else.
func TestReadPassesOverDamage(t *testing.T) {
	opts, first, last := stored(t, false)
	flip(t, first.path, first.at[2]-4) // record 2
	zero(t, last.path, last.at[1], last.at[3])
	o := offline(t, opts)
	equal(t, "all", readAll(t, o, everything), slices.Concat(numbered(1, 1), numbered(3, 5), numbered(8, 8)))
	for name, tt := range map[string]struct {
		r    segment.SeqRange
		want []string
	}{
		"all":               {everything, []string{"damage DamagedFrames record 2", "damage DamagedFrames records 6 to 7"}},
		"between":           {segment.SeqRange{From: 3, To: 6}, nil},
		"the last lost one": {segment.SeqRange{From: 7, To: 9}, []string{"damage DamagedFrames records 6 to 7"}},
	} {
		var lost []inspect.Finding
		must(t, o.Read(t.Context(), tt.r, func(Record) error { return nil }, func(f inspect.Finding) error {
			lost = append(lost, f)
			return nil
		}))
		equal(t, name, summary(lost), tt.want)
	}
}
