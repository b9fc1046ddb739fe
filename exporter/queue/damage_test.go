package queue

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/exporter/queue/segment"
	"github.com/docket-export/docket/exporter/queue/state"
	"github.com/docket-export/docket/internal/disk"
)

// segmentFiles returns the paths of the segments in dir, in order.
func segmentFiles(t *testing.T, dir string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*"+segmentSuffix))
	must(t, err)
	slices.Sort(paths)
	return paths
}

// offsets returns where each frame of a segment begins, and where the last ends.
func offsets(t *testing.T, path string) []int64 {
	t.Helper()
	b, err := os.ReadFile(path)
	must(t, err)
	at := []int64{segment.HeaderSize}
	for {
		from := at[len(at)-1]
		f, err := segment.ParseHeader(b[from:])
		if err != nil {
			return at
		}
		at = append(at, from+int64(f.Size()))
	}
}

func zero(t *testing.T, path string, from, to int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	_, err = f.WriteAt(make([]byte, to-from), from)
	must(t, err)
}

// Every record here is a commit of its own, so record n is in frame n-1.
func TestDamage(t *testing.T) {
	tests := map[string]struct {
		damage     func(t *testing.T, dir, seg string, at []int64)
		want       []string
		corrupt    uint64
		quarantine bool
	}{
		"none": {
			damage: func(*testing.T, string, string, []int64) {},
			want:   numbered(1, 6),
		},
		"torn tail: last frame half written": {
			damage: func(t *testing.T, _, seg string, at []int64) { must(t, os.Truncate(seg, at[6]-9)) },
			want:   numbered(1, 5), quarantine: true,
		},
		"torn tail: last header half written": {
			damage: func(t *testing.T, _, seg string, at []int64) { must(t, os.Truncate(seg, at[5]+10)) },
			want:   numbered(1, 5),
		},
		"torn tail: last frame zero": {
			damage: func(t *testing.T, _, seg string, at []int64) { zero(t, seg, at[5], at[6]) },
			want:   numbered(1, 5),
		},
		"zeros after the end": {
			damage: func(t *testing.T, _, seg string, at []int64) { must(t, os.Truncate(seg, at[6]+4096)) },
			want:   numbered(1, 6),
		},
		"bit flipped in a payload": {
			damage: func(t *testing.T, _, seg string, at []int64) { flip(t, seg, at[2]-4) },
			want:   slices.Concat(numbered(1, 1), numbered(3, 6)), corrupt: 1, quarantine: true,
		},
		"bit flipped in a header": {
			damage: func(t *testing.T, _, seg string, at []int64) { flip(t, seg, at[2]+frameSeqAt) },
			want:   slices.Concat(numbered(1, 2), numbered(4, 6)), corrupt: 1, quarantine: true,
		},
		"two frames zeroed": {
			damage: func(t *testing.T, _, seg string, at []int64) { zero(t, seg, at[1], at[3]) },
			want:   slices.Concat(numbered(1, 1), numbered(4, 6)), corrupt: 2, quarantine: true,
		},
		"first frame zeroed": {
			damage: func(t *testing.T, _, seg string, at []int64) { zero(t, seg, at[0], at[1]) },
			want:   numbered(2, 6), corrupt: 1, quarantine: true,
		},
		"segment header damaged": {
			damage: func(t *testing.T, _, seg string, _ []int64) { flip(t, seg, 20) },
			want:   numbered(1, 6),
		},
		"cursors file lost": {
			damage: func(t *testing.T, dir, _ string, _ []int64) {
				must(t, os.Remove(filepath.Join(dir, state.CursorsFile)))
			},
			want: numbered(1, 6),
		},
		"cursors file damaged": {
			damage: func(t *testing.T, dir, _ string, _ []int64) {
				zero(t, filepath.Join(dir, state.CursorsFile), 0, 2*slotSize)
			},
			want: numbered(1, 6), quarantine: true,
		},
		"positions file lost": {
			damage: func(t *testing.T, dir, _ string, _ []int64) {
				must(t, os.RemoveAll(filepath.Join(dir, state.PositionsFile)))
			},
			want: numbered(1, 6),
		},
		"foreign file": {
			damage: func(t *testing.T, dir, _ string, _ []int64) {
				must(t, os.WriteFile(filepath.Join(dir, "notes.txt"), []byte("mine"), 0o600))
			},
			want: numbered(1, 6),
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := Options{Directory: t.TempDir()}
			q := open(t, opts)
			storeNumbered(t, q, 1, 6, 1)
			killed(t, q)
			seg := segmentFiles(t, opts.Directory)[0]
			tt.damage(t, opts.Directory, seg, offsets(t, seg))

			for _, pass := range []string{"first open", "second open"} {
				q = open(t, opts)
				c := cursorOf(t, q, pass)
				got := drain(t, q, c)
				equal(t, pass, got, tt.want)
				if s := q.Stats(); s.Corrupt != tt.corrupt {
					t.Errorf("%s: corrupt: got %d, want %d", pass, s.Corrupt, tt.corrupt)
				}
				if pass == "first open" {
					closeQueue(t, q)
					continue
				}
				last := q.LastSeq()
				must(t, c.Ack(last))
				if a := counts(c.Account()); a != (Account{Next: last + 1, Delivered: uint64(len(tt.want)), Corrupt: tt.corrupt}) {
					t.Errorf("%s: account %+v", pass, a)
				}
			}
			kept, _ := os.ReadDir(filepath.Join(opts.Directory, state.QuarantineDir))
			if (len(kept) > 0) != tt.quarantine {
				t.Errorf("quarantine holds %d files, want some: %v", len(kept), tt.quarantine)
			}
		})
	}
}

// A power cut may keep the blocks of one commit in any order: frames behind a
// hole that were written together with it are part of the torn tail, because
// their producer was told of neither (trap 1 and 2 of the design).
func TestTornCommitOfSeveralFramesIsCutWhole(t *testing.T) {
	opts := Options{Directory: t.TempDir()}
	fsys := &faultFS{FS: disk.OS("")}
	opts.FS = fsys
	q := open(t, opts)
	storeNumbered(t, q, 1, 2, 1)
	storeSharedCommit(t, q, fsys)
	killed(t, q)

	seg := segmentFiles(t, opts.Directory)[0]
	at := offsets(t, seg)
	zero(t, seg, at[3], at[4]) // record 4: the first of the last commit
	opts.FS = nil
	q = open(t, opts)
	equal(t, "records", drain(t, q, cursorOf(t, q, "a")), numbered(1, 3))
	if n, known, _ := highest(t.Context(), q, Producer{Source: "test", Name: "p"}); known {
		t.Errorf("position %d is known, although record 4 is gone: it would never be sent again", n)
	}
	if got := q.Stats().Corrupt; got != 0 {
		t.Errorf("corrupt: got %d, want 0: nobody was told of what is gone", got)
	}
	storeNumbered(t, q, 4, 7, 2)
	closeQueue(t, q)
	q = open(t, opts)
	equal(t, "records after more", drain(t, q, cursorOf(t, q, "b")), numbered(1, 7))
}

// storeSharedCommit stores record 3 in a commit, and records 4 to 6 in three frames of
// the next.
func storeSharedCommit(t *testing.T, q *Queue, fsys *faultFS) {
	t.Helper()
	prepared(t, q)
	syncing, goOn := make(chan struct{}), make(chan struct{})
	fsys.set(func(op, name string) error {
		if op == "sync" && isSegment(name) {
			syncing <- struct{}{}
			<-goOn
		}
		return nil
	})
	must(t, q.Append(t.Context(), chunk(`{"n":3}`), nil))
	receive(t, "a sync", syncing)
	for n := 4; n <= 6; n++ {
		c := chunk(fmt.Sprintf(`{"n":%d}`, n))
		c.Producer, c.Position = "p", uint64(n)
		must(t, q.Append(t.Context(), c, nil))
	}
	fsys.set(nil)
	close(goOn)
	await.Until(t, "the commit is durable", func() bool { return q.LastSeq() == 6 })
}

// A sink has passed the first frame of the last commit, so all of it was durable: a hole
// in it is damage, and what is behind the hole stays.
func TestDamageWithinTheLastCommit(t *testing.T) {
	opts := Options{Directory: t.TempDir()}
	fsys := &faultFS{FS: disk.OS("")}
	opts.FS = fsys
	q := open(t, opts)
	storeNumbered(t, q, 1, 2, 1)
	storeSharedCommit(t, q, fsys)
	c := cursorOf(t, q, "a")
	drain(t, q, c)
	must(t, c.Ack(4))
	must(t, q.saveAccounts(t.Context()))
	killed(t, q)

	seg := segmentFiles(t, opts.Directory)[0]
	flip(t, seg, offsets(t, seg)[5]-4) // in record 5
	opts.FS = nil
	q = open(t, opts)
	equal(t, "records", drain(t, q, cursorOf(t, q, "b")), slices.Concat(numbered(1, 4), numbered(6, 6)))
	if n, known, _ := highest(t.Context(), q, Producer{Source: "test", Name: "p"}); !known || n != 6 {
		t.Errorf("position: got %d, %t, want 6", n, known)
	}
	if got := q.Stats().Corrupt; got != 1 {
		t.Errorf("corrupt: got %d, want 1", got)
	}
}

func TestMissingSegmentIsCountedExactly(t *testing.T) {
	opts := Options{Directory: t.TempDir(), SegmentBytes: 1}
	q := open(t, opts)
	storeNumbered(t, q, 1, 9, 3)
	closeQueue(t, q)
	must(t, os.Remove(segmentFiles(t, opts.Directory)[1]))
	q = open(t, opts)
	c := cursorOf(t, q, "a")
	equal(t, "records", drain(t, q, c), slices.Concat(numbered(1, 3), numbered(7, 9)))
	must(t, c.Ack(9))
	if a := counts(c.Account()); a != (Account{Next: 10, Delivered: 6, Corrupt: 3}) {
		t.Errorf("account: %+v", a)
	}
	if got := q.Stats().Corrupt; got != 3 {
		t.Errorf("corrupt: got %d, want 3", got)
	}
}

// A seq that was once given to a record is never given to another: ids would
// collide downstream.
func TestSeqIsNotReusedWhenTheLogLosesItsEnd(t *testing.T) {
	opts := Options{Directory: t.TempDir(), SegmentBytes: 1}
	q := open(t, opts)
	c := cursorOf(t, q, "a")
	storeNumbered(t, q, 1, 5, 1)
	drain(t, q, c)
	must(t, c.Ack(5))
	closeQueue(t, q)
	for _, path := range segmentFiles(t, opts.Directory) {
		must(t, os.Remove(path))
	}
	q = open(t, opts)
	storeNumbered(t, q, 6, 6, 1)
	equal(t, "the next record", drain(t, q, cursorOf(t, q, "a")), numbered(6, 6))
}

func TestTruncationAtEveryByte(t *testing.T) {
	t.Parallel()
	opts := Options{Directory: t.TempDir()}
	q := open(t, opts)
	storeNumbered(t, q, 1, 4, 2)
	killed(t, q)
	seg := segmentFiles(t, opts.Directory)[0]
	at := offsets(t, seg)
	content, err := os.ReadFile(seg)
	must(t, err)
	sizes := []int64{0, 1, 80 - 1, 80}
	for size := at[0] - 1; size <= at[2]; size++ {
		if end := size == at[1] || size == at[2]; end || size%5 == 0 || !testing.Short() {
			sizes = append(sizes, size)
		}
	}
	for _, size := range sizes {
		dir := t.TempDir()
		must(t, os.WriteFile(filepath.Join(dir, filepath.Base(seg)), content[:size], 0o600))
		want := 0
		for _, end := range at[1:] {
			if size >= end {
				want += 2
			}
		}
		q, err := Open(Options{Directory: dir, SegmentBytes: 32 << 10})
		if err != nil {
			t.Fatalf("segment of %d bytes: %v", size, err)
		}
		storeNumbered(t, q, want+1, want+2, 1)
		equal(t, fmt.Sprintf("segment of %d bytes", size), drain(t, q, cursorOf(t, q, "a")), numbered(1, want+2))
		closeQueue(t, q)
	}
}

func TestOlderSlotServesWhenTheNewerIsTorn(t *testing.T) {
	opts := Options{Directory: t.TempDir()}
	q := open(t, opts)
	c := cursorOf(t, q, "a")
	storeNumbered(t, q, 1, 4, 1)
	drain(t, q, c)
	for _, seq := range []uint64{1, 2} {
		must(t, c.Ack(seq))
		await.Until(t, "the cursor is durable", func() bool {
			_, accounts, err := state.OpenCursorFile(disk.OS(""), opts.Directory)
			return err == nil && accounts["a"].Next == seq+1
		})
	}
	closeQueue(t, q)
	path := filepath.Join(opts.Directory, state.CursorsFile)
	b, err := os.ReadFile(path)
	must(t, err)
	newest := int64(0)
	if le.Uint64(b[slotSize+16:]) > le.Uint64(b[16:]) { // their generations
		newest = slotSize
	}
	flip(t, path, newest+slotHead+1)
	q = open(t, opts)
	equal(t, "records", drain(t, q, cursorOf(t, q, "a")), numbered(2, 4))
}
