package queue

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/uuid"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/exporter/queue/segment"
	"github.com/docket-export/docket/exporter/queue/state"
	"github.com/docket-export/docket/internal/disk"
)

// Whatever the file cursors holds, the queue opens and delivers every record.
func FuzzCursorsFile(f *testing.F) {
	f.Add([]byte{}, 0)
	f.Add(encodeSlot(uuid.Nil, 7, map[string]Account{"a": {Next: 3, Delivered: 2}}), slotSize)
	f.Fuzz(func(t *testing.T, content []byte, at int) {
		opts := Options{Directory: t.TempDir(), SegmentBytes: smallSegment}
		q := open(t, opts)
		storeNumbered(t, q, 1, 5, 1)
		closeQueue(t, q)
		file := make([]byte, 2*slotSize)
		copy(file[min(max(at, 0), len(file)):], content)
		must(t, os.WriteFile(filepath.Join(opts.Directory, state.CursorsFile), file, 0o600))
		q, err := Open(opts)
		if err != nil {
			t.Fatalf("open: %v", err)
		}
		defer closeQueue(t, q)
		if _, ok := q.Stats().Cursors["new"]; ok {
			return // a valid slot that names it
		}
		got := drain(t, q, cursorOf(t, q, "new"))
		if len(q.Stats().Cursors) == 1 { // no sink is known that has passed any
			equal(t, "records", got, numbered(1, 5))
		}
	})
}

// Whatever files of earlier uses hold, and whatever stands behind the last frame,
// nothing of it is taken for a record: the queue delivers what was stored, and
// nothing else.
func FuzzRecycledDirectory(f *testing.F) {
	old := encode(chunk(`{"old":true}`))
	segment.Place(old, 1, segment.HeaderSize, 4)
	spare := append(encodeHeader(segment.Header{}, segment.Name{FirstSeq: 1, Epoch: 9}), old...)
	f.Add(spare, old, []byte{})
	f.Add([]byte{}, spare, old)
	f.Fuzz(func(t *testing.T, spare, behind, begun []byte) {
		opts := Options{Directory: t.TempDir(), SegmentBytes: smallSegment}
		q := open(t, opts)
		storeNumbered(t, q, 1, 3, 1)
		closeQueue(t, q)
		seg := segmentFiles(t, opts.Directory)[0]
		at := offsets(t, seg)
		content, err := os.ReadFile(seg)
		must(t, err)
		end := alignBlock(at[len(at)-1]) // commits are padded to whole blocks
		name, _ := segment.ParseName(filepath.Base(seg))
		if holdsFrameOf(behind, name.Epoch) {
			return // that no epoch is used twice is the other half of the promise
		}
		must(t, os.WriteFile(seg, append(content[:end:end], behind...), 0o600))
		padded := make([]byte, smallSegment)
		copy(padded, spare)
		if e := le.Uint64(padded[16:]); le.Uint32(padded[12:]) == headerSum(padded) && e > 1<<62 {
			return // no queue has begun so many segments
		}
		must(t, os.WriteFile(filepath.Join(opts.Directory, state.SparePrefix+"90"), padded, 0o600))
		must(t, os.WriteFile(filepath.Join(opts.Directory, state.BeginPrefix+"91"+disk.NewSuffix), begun, 0o600))

		q, err = Open(opts)
		if err != nil {
			t.Fatalf("open: %v", err)
		}
		storeNumbered(t, q, 4, 9, 1)
		equal(t, "records", drain(t, q, cursorOf(t, q, "a")), numbered(1, 9))
		closeQueue(t, q)
		q, err = Open(opts)
		if err != nil {
			t.Fatalf("open again: %v", err)
		}
		defer closeQueue(t, q)
		equal(t, "records after a restart", drain(t, q, cursorOf(t, q, "b")), numbered(1, 9))
	})
}

// holdsFrameOf reports whether a frame of the epoch stands where one is looked for.
func holdsFrameOf(b []byte, epoch uint64) bool {
	for ; len(b) >= frameFixed; b = b[frameAlign:] {
		if f, err := segment.ParseHeader(b); err == nil && f.Epoch == epoch {
			return true
		}
	}
	return false
}

// Whatever the file positions holds, the queue opens and its records come.
func FuzzPositionsFile(f *testing.F) {
	f.Add([]byte("docket positions 1 crc32c 00000000\n"))
	f.Add([]byte("docket positions 1 crc32c f5c3d0f8\n{}"))
	f.Fuzz(func(t *testing.T, content []byte) {
		opts := Options{Directory: t.TempDir(), SegmentBytes: smallSegment}
		q := open(t, opts)
		storeNumbered(t, q, 1, 4, 1)
		closeQueue(t, q)
		must(t, os.WriteFile(filepath.Join(opts.Directory, state.PositionsFile), content, 0o600))
		q, err := Open(opts)
		if err != nil {
			t.Fatalf("open: %v", err)
		}
		defer closeQueue(t, q)
		ctx, cancel := context.WithTimeout(t.Context(), await.Left(t))
		defer cancel()
		if _, _, err := highest(ctx, q, Producer{Source: "test", Name: "p"}); err != nil {
			t.Errorf("position: %v", err)
		}
		equal(t, "records", drain(t, q, cursorOf(t, q, "a")), numbered(1, 4))
	})
}
