package queue

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/uuid"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/exporter/queue/state"
	"github.com/docket-export/docket/internal/fileversion"
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

// Whatever the file positions holds, the queue opens and its records come.
func FuzzPositionsFile(f *testing.F) {
	f.Add([]byte("docket positions 2 crc32c 00000000\n"))
	f.Add(fmt.Appendf(nil, positionsHead+"{}", positionsVersion, crc32.Checksum([]byte("{}"), castagnoli)))
	f.Add(fmt.Appendf(nil, positionsHead+`{"sources":{"s":{}}}`, positionsVersion, crc32.Checksum([]byte(`{"sources":{"s":{}}}`), castagnoli)))
	f.Fuzz(func(t *testing.T, content []byte) {
		opts := Options{Directory: t.TempDir(), SegmentBytes: smallSegment}
		q := open(t, opts)
		storeNumbered(t, q, 1, 4, 1)
		closeQueue(t, q)
		must(t, os.WriteFile(filepath.Join(opts.Directory, state.PositionsFile), content, 0o600))
		q, err := Open(opts)
		if errors.As(err, new(*fileversion.Error)) {
			return
		}
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
