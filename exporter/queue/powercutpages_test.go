package queue

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/docket-export/docket/exporter/queue/inspect"
	"github.com/docket-export/docket/exporter/queue/segment"
)

// page is what a disk writes at once.
const page = 4 << 10

// pageCut is a segment as a power cut may leave it: of its last commit, which was not
// synced, any pages have reached the disk, in any order.
type pageCut struct {
	before, after []byte // the segment without the commit, and with the whole of it
	first, last   int    // the pages of the commit
	acked         uint64 // the last record that was synced
}

// newPageCut writes commits of one frame each, and a last one of so many frames. With
// recycled the file holds frames of an older epoch behind them, otherwise zeros.
func newPageCut(t *testing.T, size, frames int, recycled bool) *pageCut {
	t.Helper()
	path, at := logOf(t, t.TempDir(), size, 1, 1, frames)
	after, err := os.ReadFile(path)
	must(t, err)
	c := &pageCut{before: bytes.Clone(after), after: after, acked: 2}
	from, to := at[2], at[2+frames]
	clear(c.before[from:])
	if recycled {
		older := staleFrames(len(after)/100, 0)
		copy(c.before[from:], older)
		copy(c.after[to:], older)
	}
	c.first, c.last = int(from/page), int((to-1)/page)
	return c
}

// pages is how many pages the last commit has.
func (c *pageCut) pages() int { return c.last - c.first + 1 }

// check has the tools look at a disk that has the pages of the last commit for which has
// says so, and then an exporter start on it. Both must say that nothing is damaged, and
// find the same records.
func (c *pageCut) check(t *testing.T, what string, has func(page int) bool) {
	t.Helper()
	disk := bytes.Clone(c.before)
	for p := range c.pages() {
		if has(p) {
			from, to := (c.first+p)*page, min((c.first+p+1)*page, len(disk))
			copy(disk[from:to], c.after[from:to])
		}
	}
	dir := t.TempDir()
	path := filepath.Join(dir, segment.Name{FirstSeq: 1, Epoch: 1}.String())
	must(t, os.WriteFile(path, disk, 0o600))
	passedBy(t, path, 1)

	o, err := inspect.Open(dir, nil)
	must(t, err)
	torn := false
	for _, f := range findings(t, o) {
		torn = torn || f.Kind == "TornTail"
		if f.Severity != inspect.Note {
			t.Errorf("%s: docket queue check: got %s", what, f)
		}
	}
	contents, err := o.Contents(t.Context())
	must(t, err)
	must(t, o.Close())

	q := open(t, Options{Directory: dir})
	stats := q.Stats()
	got := numbersOf(drain(t, q, cursorOf(t, q, "a")))
	closeQueue(t, q)
	if stats.Corrupt > 0 || stats.LastSeq < c.acked || stats.LastSeq != contents.LastSeq || (stats.TornTails > 0) != torn {
		t.Errorf("%s: Open: %d corrupt, last seq %d, %d torn tails; docket queue: last seq %d, torn %t; want no damage and the same of both",
			what, stats.Corrupt, stats.LastSeq, stats.TornTails, contents.LastSeq, torn)
	}
	var want []string
	for seq := range stats.LastSeq {
		want = append(want, fmt.Sprint(seq+1))
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s: got records %v, want %v", what, got, want)
	}
}

// A power cut leaves any of the pages of a commit that was not synced. The tools for a
// queue at rest say of every such disk what Open makes of it: no damage, a torn tail
// where one is cut, the same last record.
func TestCheckSaysWhatOpenDoesOfEverySetOfPages(t *testing.T) {
	t.Parallel()
	for _, recycled := range []bool{false, true} {
		for _, frames := range []struct{ n, size int }{{3, 5 << 10}, {7, 1 << 10}, {1, 20 << 10}} {
			t.Run(fmt.Sprintf("%d frames of %d bytes, recycled %t", frames.n, frames.size, recycled), func(t *testing.T) {
				t.Parallel()
				c := newPageCut(t, frames.size, frames.n, recycled)
				for set := range 1 << c.pages() {
					if testing.Short() && set%13 > 0 {
						continue
					}
					c.check(t, fmt.Sprintf("pages %b", set), func(p int) bool { return set>>p&1 == 1 })
				}
			})
		}
	}
}

// A commit may be larger than what is read at once.
func TestCheckSaysWhatOpenDoesOfSinglePages(t *testing.T) {
	t.Parallel()
	between := 37
	if testing.Short() {
		between = 149
	}
	for _, recycled := range []bool{false, true} {
		c := newPageCut(t, 300<<10, 5, recycled)
		for one := 0; one < c.pages(); one += between {
			c.check(t, fmt.Sprintf("recycled %t, page %d alone", recycled, one), func(p int) bool { return p == one })
			c.check(t, fmt.Sprintf("recycled %t, all but page %d", recycled, one), func(p int) bool { return p != one })
			c.check(t, fmt.Sprintf("recycled %t, every other page up to %d", recycled, one), func(p int) bool { return p <= one && p%2 == 0 })
		}
	}
}

// The same disk is damaged if a sink has had what is missing, and can be read all the same.
func TestCheckOfALargeEndThatIsLost(t *testing.T) {
	c := newPageCut(t, 300<<10, 5, false)
	for one := 0; one < c.pages(); one += 37 {
		disk := bytes.Clone(c.before)
		for p := one; p < c.pages(); p += 2 {
			from, to := (c.first+p)*page, min((c.first+p+1)*page, len(disk))
			copy(disk[from:to], c.after[from:to])
		}
		dir := t.TempDir()
		path := filepath.Join(dir, segment.Name{FirstSeq: 1, Epoch: 1}.String())
		must(t, os.WriteFile(path, disk, 0o600))
		passedBy(t, path, 8)
		o, err := inspect.Open(dir, nil)
		must(t, err)
		var lost uint64
		for _, f := range findings(t, o) {
			lost += f.Lost.Size()
			if f.Kind == inspect.UnreadableFile {
				t.Errorf("every other page from %d on: got %s", one, f)
			}
		}
		must(t, o.Close())
		if lost != 5 {
			t.Errorf("every other page from %d on: got %d records lost, want 5", one, lost)
		}
	}
}
