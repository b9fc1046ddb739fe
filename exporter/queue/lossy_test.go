package queue

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/docket-export/docket/exporter/queue/segment"
	"github.com/docket-export/docket/exporter/queue/state"
	"github.com/docket-export/docket/internal/disk/crashdisk"
)

// A sink whose place lies within a frame loses nothing of it when a frame before, in
// the same segment, is damaged: it has passed that.
func TestDamageBeforeASinkWithinAFrame(t *testing.T) {
	opts := Options{Directory: t.TempDir()}
	q := open(t, opts)
	c := cursorOf(t, q, "a")
	storeNumbered(t, q, 1, 3, 3)
	storeNumbered(t, q, 4, 9, 3)
	drain(t, q, c)
	must(t, c.Ack(5))
	closeQueue(t, q)
	seg := segmentFiles(t, opts.Directory)[0]
	flip(t, seg, offsets(t, seg)[0]+frameSeqAt) // the frame of records 1 to 3
	q = open(t, opts)
	c = cursorOf(t, q, "a")
	equal(t, "records not acked", drain(t, q, c), numbered(6, 9))
	must(t, c.Ack(9))
	if a := counts(c.Account()); a != (Account{Next: 10, Delivered: 9}) {
		t.Errorf("account: got %+v, want all delivered", a)
	}
}

// Damage to a queue of five segments of three records, each a commit of its own, which
// was closed in order: what is lost is exact, and all the rest is delivered.
func TestDamageOfSegments(t *testing.T) {
	const records = 15
	tests := map[string]struct {
		damage     func(t *testing.T, dir string, segments []string)
		lost       []segment.SeqRange
		quarantine bool
	}{
		"first segment missing": {
			damage: func(t *testing.T, _ string, s []string) { must(t, os.Remove(s[0])) },
			lost:   []segment.SeqRange{{From: 1, To: 4}},
		},
		"middle segment missing": {
			damage: func(t *testing.T, _ string, s []string) { must(t, os.Remove(s[2])) },
			lost:   []segment.SeqRange{{From: 7, To: 10}},
		},
		"two segments missing": {
			damage: func(t *testing.T, _ string, s []string) { must(t, os.Remove(s[1])); must(t, os.Remove(s[2])) },
			lost:   []segment.SeqRange{{From: 4, To: 10}},
		},
		"last segment missing, which a checkpoint knows of": {
			damage: func(t *testing.T, _ string, s []string) { must(t, os.Remove(s[4])) },
			lost:   []segment.SeqRange{{From: 13, To: 16}},
		},
		"header of the first segment damaged": {
			damage: func(t *testing.T, _ string, s []string) { flip(t, s[0], 30) },
		},
		"header of the successor damaged, with old content behind the end": {
			damage: func(t *testing.T, _ string, s []string) {
				oldContent(t, s[1])
				flip(t, s[2], 60)
			},
		},
		"headers of all segments zero": {
			damage: func(t *testing.T, _ string, s []string) {
				for _, path := range s {
					zero(t, path, 0, segment.HeaderSize)
				}
			},
		},
		"old content behind the end of every segment": {
			damage: func(t *testing.T, _ string, s []string) {
				for _, path := range s {
					oldContent(t, path)
				}
			},
		},
		"a segment cut in the middle": {
			damage: func(t *testing.T, _ string, s []string) { must(t, os.Truncate(s[1], offsets(t, s[1])[1]+9)) },
			lost:   []segment.SeqRange{{From: 5, To: 7}}, quarantine: true,
		},
		"a segment of no bytes": {
			damage: func(t *testing.T, _ string, s []string) { must(t, os.Truncate(s[1], 0)) },
			lost:   []segment.SeqRange{{From: 4, To: 7}},
		},
		"frames of a whole segment zero": {
			damage: func(t *testing.T, _ string, s []string) {
				at := offsets(t, s[1])
				zero(t, s[1], at[0], at[3])
			},
			lost: []segment.SeqRange{{From: 4, To: 7}}, quarantine: true,
		},
		"last frame of a segment": {
			damage: func(t *testing.T, _ string, s []string) { flip(t, s[1], offsets(t, s[1])[3]-20) },
			lost:   []segment.SeqRange{{From: 6, To: 7}}, quarantine: true,
		},
		"frames of three segments": {
			damage: func(t *testing.T, _ string, s []string) {
				for i := range 3 {
					flip(t, s[i], offsets(t, s[i])[1]+20)
				}
			},
			lost: []segment.SeqRange{{From: 2, To: 3}, {From: 5, To: 6}, {From: 8, To: 9}}, quarantine: true,
		},
		"a spare with a damaged header": {
			damage: func(t *testing.T, dir string, _ []string) { spoilSpares(t, dir, 20) },
		},
		"spares full of old frames, and no header": {
			damage: func(t *testing.T, dir string, s []string) {
				content, err := os.ReadFile(s[0])
				must(t, err)
				clear(content[:segment.HeaderSize])
				for _, path := range files(t, dir, state.SparePrefix+"*") {
					must(t, os.WriteFile(path, content, 0o600))
				}
			},
		},
		"positions file cut": {
			damage: func(t *testing.T, dir string, _ []string) {
				must(t, os.Truncate(filepath.Join(dir, state.PositionsFile), 50))
			},
			quarantine: true,
		},
		"reserve lost": {
			damage: func(t *testing.T, dir string, _ []string) {
				must(t, os.RemoveAll(filepath.Join(dir, state.ReserveFile)))
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := Options{Directory: t.TempDir(), SegmentBytes: smallSegment}
			q := open(t, opts)
			cursorOf(t, q, "slow") // nothing goes
			for n := 1; n <= records; n++ {
				store(t, q, padded(n))
			}
			prepared(t, q) // the file becomes a spare
			closeQueue(t, q)
			segments := segmentFiles(t, opts.Directory)
			if len(segments) != records/3 {
				t.Fatalf("segments: got %d, want %d", len(segments), records/3)
			}
			tt.damage(t, opts.Directory, segments)
			var lost uint64
			var want []int
			for n := 1; n <= records; n++ {
				if slices.ContainsFunc(tt.lost, func(r segment.SeqRange) bool { return r.From <= uint64(n) && uint64(n) < r.To }) {
					lost++
				} else {
					want = append(want, n)
				}
			}
			for _, pass := range []string{"first open", "second open"} {
				q = open(t, opts)
				c := cursorOf(t, q, pass)
				if got := paddedNumbers(t, drain(t, q, c)); !slices.Equal(got, want) {
					t.Errorf("%s: got %v, want %v", pass, got, want)
				}
				if c.next > 1 {
					must(t, c.Ack(c.next-1))
				}
				a := c.Account()
				if first := a.Filtered; a.Next != records+1 || a.Corrupt+first != lost || a.Delivered != uint64(len(want)) {
					t.Errorf("%s: account %+v, want %d delivered and %d lost", pass, a, len(want), lost)
				}
				if s := q.Stats(); s.TornTails != 0 || s.LastSeq != records {
					t.Errorf("%s: %+v", pass, s)
				}
				closeQueue(t, q)
			}
			if kept := files(t, opts.Directory, state.QuarantineDir+"/*"); (len(kept) > 0) != tt.quarantine {
				t.Errorf("quarantine: got %v, want some: %v", kept, tt.quarantine)
			}
		})
	}
}

// padded is a chunk of one record whose frame takes a block.
func padded(n int) *Chunk {
	c := chunk(fmt.Sprintf("%d ", n))
	return chunk(fmt.Sprintf("%d %s", n, strings.Repeat("x", crashdisk.PageBytes-c.FrameSize()-2)))
}

// paddedNumbers returns the numbers of such records, whose seqs they must be.
func paddedNumbers(t *testing.T, records []string) (numbers []int) {
	t.Helper()
	for _, r := range records {
		var seq, n int
		if _, err := fmt.Sscanf(r, "%d:%d ", &seq, &n); err != nil || seq != n {
			t.Errorf("record %.20q: seq %d, %v", r, seq, err)
		}
		numbers = append(numbers, n)
	}
	return numbers
}

// oldContent puts frames of an earlier use behind the last frame of a segment.
func oldContent(t *testing.T, path string) {
	t.Helper()
	at := offsets(t, path)
	end := at[len(at)-1]
	name, _ := segment.ParseName(filepath.Base(path))
	content, err := os.ReadFile(path)
	must(t, err)
	content = content[:end]
	for i := range 3 {
		b := encode(chunk(`{"old":true}`))
		segment.Place(b, name.Epoch-1, end, name.FirstSeq+uint64(len(at)-1+i))
		content = append(content, b...)
	}
	must(t, os.WriteFile(path, content, 0o600))
}

func spoilSpares(t *testing.T, dir string, at int64) {
	t.Helper()
	spares := files(t, dir, state.SparePrefix+"*")
	if len(spares) == 0 {
		t.Fatal("no spares")
	}
	for _, path := range spares {
		flip(t, path, at)
	}
}

// A hole in the last segment, larger than a commit and followed by frames that were
// written after it was durable, is damage, however large it is.
func TestLargeHoleInTheLastSegment(t *testing.T) {
	for _, size := range []int{3 << 20, 8 << 20} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			opts := Options{Directory: t.TempDir(), SegmentBytes: 16 << 20}
			q := open(t, opts)
			const each = 64 << 10
			n := size/each + 6
			for i := 1; i <= n; i++ {
				store(t, q, chunk(fmt.Sprintf("%d %s", i, strings.Repeat("x", each))))
			}
			closeQueue(t, q)
			seg := segmentFiles(t, opts.Directory)[0]
			at := offsets(t, seg)
			zero(t, seg, at[2], at[2]+int64(size))
			gone := slices.IndexFunc(at[2:], func(off int64) bool { return off >= at[2]+int64(size) })
			var want []int
			for i := 1; i <= n; i++ {
				if i <= 2 || i > 2+gone {
					want = append(want, i)
				}
			}
			q = open(t, opts)
			c := cursorOf(t, q, "a")
			if got := paddedNumbers(t, drain(t, q, c)); !slices.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
			must(t, c.Ack(uint64(n)))
			if a := counts(c.Account()); a != (Account{Next: uint64(n + 1), Delivered: uint64(n - gone), Corrupt: uint64(gone)}) {
				t.Errorf("account: got %+v, want %d corrupt", a, gone)
			}
			if s := q.Stats(); s.TornTails != 0 || s.Corrupt != uint64(gone) {
				t.Errorf("got %d torn tails and %d corrupt, want 0 and %d", s.TornTails, s.Corrupt, gone)
			}
		})
	}
}
