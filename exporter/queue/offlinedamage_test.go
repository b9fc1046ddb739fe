package queue

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/exporter/queue/segment"
	"github.com/docket-export/docket/exporter/queue/state"
	"github.com/docket-export/docket/internal/disk"
)

// stored makes a queue of two segments, as it is when its exporter is killed. The
// first segment holds records 1 to 4, the second 5 to 8, each in a frame of its own.
// Sink a has done 2, sink b, if asked for, all.
func stored(t *testing.T, withB bool) (opts Options, first, last storedFile) {
	t.Helper()
	live := Options{Directory: t.TempDir(), SegmentBytes: 32 << 10}
	q := open(t, live)
	storeNumbered(t, q, 1, 4, 1)
	closeQueue(t, q)
	q = open(t, live)
	storeNumbered(t, q, 5, 8, 1)
	done := map[string]uint64{"a": 2}
	if withB {
		done["b"] = 8
	}
	for sink, seq := range done {
		c := cursorOf(t, q, sink)
		drain(t, q, c)
		must(t, c.Ack(seq))
	}
	await.Until(t, "durable cursors", func() bool {
		f, accounts, err := state.OpenCursorFile(disk.OS(""), live.Directory)
		if err == nil {
			f.File.Close()
		}
		return accounts["a"].Next == 3 && accounts["b"].Next == 9*uint64(len(done)-1)
	})
	opts = live
	opts.Directory = t.TempDir()
	copySettled(t, live.Directory, opts.Directory)
	closeQueue(t, q)
	paths := segmentFiles(t, opts.Directory)
	if len(paths) != 2 {
		t.Fatalf("got segments %q, want two", paths)
	}
	return opts, fileOf(t, paths[0]), fileOf(t, paths[1])
}

// copySettled copies the files of a queue in use, but for those that are being
// prepared.
func copySettled(t *testing.T, from, to string) {
	t.Helper()
	files, err := os.ReadDir(from)
	must(t, err)
	for _, e := range files {
		if strings.HasSuffix(e.Name(), disk.NewSuffix) {
			continue
		}
		b, err := os.ReadFile(filepath.Join(from, e.Name()))
		must(t, err)
		must(t, os.WriteFile(filepath.Join(to, e.Name()), b, 0o600))
	}
}

// storedFile is a segment file and where the frames of its epoch begin; the last
// offset is where they end.
type storedFile struct {
	path string
	at   []int64
}

func fileOf(t *testing.T, path string) storedFile {
	t.Helper()
	b, err := os.ReadFile(path)
	must(t, err)
	name, _ := segment.ParseName(filepath.Base(path))
	s := storedFile{path: path, at: []int64{segment.HeaderSize}}
	for {
		at := s.at[len(s.at)-1]
		f, err := segment.ParseHeader(b[at:])
		if err != nil || f.Epoch != name.Epoch {
			return s
		}
		s.at = append(s.at, at+int64(f.Size()))
	}
}

// put writes b at an offset of a file, which grows if it must.
func put(t *testing.T, path string, off int64, b []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	must(t, err)
	defer f.Close()
	_, err = f.WriteAt(b, off)
	must(t, err)
}

func garbage(n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{7})
	if _, err := r.Read(b); err != nil {
		panic(err)
	}
	return b
}

// holeInTheLastCommit makes the last three frames ones of a single commit, and
// zeroes the first of them.
func holeInTheLastCommit(t *testing.T, _ string, _, last storedFile) {
	t.Helper()
	content, err := os.ReadFile(last.path)
	must(t, err)
	for i := 2; i <= 3; i++ {
		b := content[last.at[i]:last.at[i+1]]
		segment.Place(b, le.Uint64(b[frameEpochAt:]), last.at[1], uint64(5+i))
		put(t, last.path, last.at[i], b)
	}
	zero(t, last.path, last.at[1], last.at[2])
}

// offlineDamage are ways in which a queue can be damaged, each with what Check says to it.
var offlineDamage = map[string]struct {
	withB  bool
	damage func(t *testing.T, dir string, first, last storedFile)
	want   []string
}{
	"none": {},
	"bit flipped in a payload": {
		damage: func(t *testing.T, _ string, first, _ storedFile) { flip(t, first.path, first.at[2]-4) },
		want:   []string{"damage DamagedFrames record 2"},
	},
	"bit flipped in a header": {
		damage: func(t *testing.T, _ string, _, last storedFile) { flip(t, last.path, last.at[1]+frameSeqAt) },
		want:   []string{"damage DamagedFrames record 6"},
	},
	"two places": {
		damage: func(t *testing.T, _ string, first, last storedFile) {
			flip(t, first.path, first.at[1]-4)
			zero(t, last.path, last.at[1], last.at[3])
		},
		want: []string{"damage DamagedFrames record 1", "damage DamagedFrames records 6 to 7"},
	},
	"zeros in the middle": {
		damage: func(t *testing.T, _ string, first, _ storedFile) { zero(t, first.path, first.at[0], first.at[2]) },
		want:   []string{"damage DamagedFrames records 1 to 2"},
	},
	"zeros at the end of a segment that has a successor": {
		damage: func(t *testing.T, _ string, first, _ storedFile) { zero(t, first.path, first.at[1], first.at[4]) },
		want:   []string{"damage DamagedFrames records 2 to 4"},
	},
	"segment cut short": {
		damage: func(t *testing.T, _ string, first, _ storedFile) { must(t, os.Truncate(first.path, first.at[2]-9)) },
		want:   []string{"damage DamagedFrames records 2 to 4"},
	},
	"segment cut short between frames": {
		damage: func(t *testing.T, _ string, first, _ storedFile) { must(t, os.Truncate(first.path, first.at[2])) },
		want:   []string{"damage DamagedFrames records 3 to 4"},
	},
	"huge garbage in place of a segment": {
		damage: func(t *testing.T, _ string, first, _ storedFile) { put(t, first.path, 0, garbage(8<<20)) },
		want:   []string{"damage DamagedHeader", "damage DamagedFrames records 1 to 4"},
	},
	"empty segment": {
		damage: func(t *testing.T, _ string, first, _ storedFile) { must(t, os.Truncate(first.path, 0)) },
		want:   []string{"damage DamagedHeader", "damage DamagedFrames records 1 to 4"},
	},
	"torn tail: last frame half written": {
		damage: func(t *testing.T, _ string, _, last storedFile) { zero(t, last.path, last.at[4]-9, last.at[4]) },
		want:   []string{"note TornTail"},
	},
	"torn tail: a hole and frames behind it": {
		damage: holeInTheLastCommit,
		want:   []string{"note TornTail"},
	},
	"a hole and frames behind it that a sink has passed": {
		withB:  true,
		damage: holeInTheLastCommit,
		want:   []string{"damage DamagedFrames record 6"},
	},
	"end lost: last frame zero": {
		withB:  true,
		damage: func(t *testing.T, _ string, _, last storedFile) { zero(t, last.path, last.at[3], last.at[4]) },
		want:   []string{"damage LostEnd record 8"},
	},
	"bit flipped in the last frame": { // which a sink has passed, so that its header counts
		withB:  true,
		damage: func(t *testing.T, _ string, _, last storedFile) { flip(t, last.path, last.at[4]-4) },
		want:   []string{"damage DamagedFrames record 8"},
	},
	"end lost: no frame of the last segment": {
		withB:  true,
		damage: func(t *testing.T, _ string, _, last storedFile) { must(t, os.Truncate(last.path, last.at[0])) },
		want:   []string{"damage LostEnd records 5 to 8"},
	},
	"end lost: last segment missing": {
		withB:  true,
		damage: func(t *testing.T, _ string, _, last storedFile) { must(t, os.Remove(last.path)) },
		want:   []string{"damage LostEnd records 5 to 8"},
	},
	"first segment missing": {
		damage: func(t *testing.T, _ string, first, _ storedFile) { must(t, os.Remove(first.path)) },
		want:   []string{"damage MissingRecords records 3 to 4"},
	},
	"all segments missing": {
		withB: true,
		damage: func(t *testing.T, _ string, first, last storedFile) {
			must(t, os.Remove(first.path))
			must(t, os.Remove(last.path))
		},
		want: []string{"damage LostEnd records 3 to 8"},
	},
	"segment header damaged": {
		damage: func(t *testing.T, _ string, _, last storedFile) { flip(t, last.path, 20) },
		want:   []string{"damage DamagedHeader"},
	},
	"foreign segment": {
		damage: func(t *testing.T, dir string, _, _ storedFile) {
			other := Options{Directory: t.TempDir()}
			q := open(t, other)
			storeNumbered(t, q, 1, 3, 1)
			closeQueue(t, q)
			b, err := os.ReadFile(segmentFiles(t, other.Directory)[0])
			must(t, err)
			name := segment.Name{FirstSeq: 40, Epoch: 40}
			le.PutUint64(b[16:], name.Epoch)
			le.PutUint64(b[24:], name.FirstSeq)
			le.PutUint32(b[12:], headerSum(b))
			put(t, filepath.Join(dir, name.String()), 0, b)
		},
		want: []string{"damage ForeignSegment"},
	},
	"cursors lost": {
		damage: func(t *testing.T, dir string, _, _ storedFile) {
			must(t, os.Remove(filepath.Join(dir, state.CursorsFile)))
		},
		want: []string{"damage MissingCursors"},
	},
	"cursors empty": {
		damage: func(t *testing.T, dir string, _, _ storedFile) {
			must(t, os.Truncate(filepath.Join(dir, state.CursorsFile), 0))
		},
		want: []string{"damage DamagedCursors"},
	},
	"cursors: both slots damaged": {
		damage: func(t *testing.T, dir string, _, _ storedFile) {
			flip(t, filepath.Join(dir, state.CursorsFile), 20)
			flip(t, filepath.Join(dir, state.CursorsFile), slotSize+20)
		},
		want: []string{"damage DamagedCursors"},
	},
	"cursors: one slot damaged": {
		damage: func(t *testing.T, dir string, _, _ storedFile) { flip(t, filepath.Join(dir, state.CursorsFile), 20) },
		want:   []string{"note DamagedSlot"},
	},
	"positions lost": {
		damage: func(t *testing.T, dir string, _, _ storedFile) {
			must(t, os.Remove(filepath.Join(dir, state.PositionsFile)))
		},
		want: []string{"note MissingPositions"},
	},
	"positions damaged": {
		damage: func(t *testing.T, dir string, _, _ storedFile) { flip(t, filepath.Join(dir, state.PositionsFile), 60) },
		want:   []string{"damage DamagedPositions"},
	},
	"garbage behind the end": {
		damage: func(t *testing.T, _ string, _, last storedFile) { put(t, last.path, last.at[4], garbage(100_001)) },
	},
	"leftovers": {
		damage: func(t *testing.T, dir string, _, _ storedFile) {
			put(t, filepath.Join(dir, "segment-4.new"), 0, garbage(9000))
			put(t, filepath.Join(dir, state.PositionsFile+".new"), 0, garbage(9))
		},
		want: []string{"note Leftover", "note Leftover"},
	},
	"stray files": {
		damage: func(t *testing.T, dir string, _, _ storedFile) {
			put(t, filepath.Join(dir, "notes.txt"), 0, []byte("mine"))
			put(t, filepath.Join(dir, "spare.1"), 0, []byte("mine"))
			put(t, filepath.Join(dir, "1-2.segment"), 0, []byte("mine"))
		},
		want: []string{"note StrayFile", "note StrayFile", "note StrayFile"},
	},
}
