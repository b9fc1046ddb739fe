package queue

import (
	"context"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/uuid"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/exporter/queue/segment"
)

// Whatever a segment holds, the queue opens, takes a record and gives it out.
func FuzzRecovery(f *testing.F) {
	name := segment.Name{FirstSeq: 1, Epoch: 1}
	seg := encodeHeader(segment.Header{Queue: uuid.New()}, name)
	for n := range 3 {
		b := encode(chunk(`{"n":1}`, `{"n":2}`))
		segment.Place(b, 1, int64(len(seg)), uint64(2*n+1))
		seg = append(seg, b...)
	}
	f.Add(seg)
	f.Add(seg[:len(seg)-5])
	f.Fuzz(func(t *testing.T, content []byte) {
		dir := t.TempDir()
		must(t, os.WriteFile(filepath.Join(dir, name.String()), content, 0o600))
		q, err := Open(Options{Directory: dir})
		if err != nil {
			return // an unknown format version is refused
		}
		defer closeQueue(t, q)
		store(t, q, chunk(`{"mine":true}`))
		c := cursorOf(t, q, "a")
		ctx, cancel := context.WithTimeout(t.Context(), await.Left(t))
		defer cancel()
		for {
			records, err := c.Next(ctx, Limits{Records: 100, Bytes: 1 << 20})
			if err != nil {
				t.Fatalf("my record was not delivered: %v", err)
			}
			if last := records[len(records)-1]; last.Seq == q.LastSeq() {
				if string(last.Data) != `{"mine":true}` {
					t.Errorf("last record: got %s", last.Data)
				}
				return
			}
		}
	})
}

// encode returns the frame of c, which is not placed yet.
func encode(c *Chunk) []byte {
	return segment.AppendFrame(nil, c, crc32.Checksum(c.Records, castagnoli))
}
