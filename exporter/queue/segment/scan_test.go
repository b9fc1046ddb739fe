package segment

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/docket-export/docket/internal/disk"
)

// The bytes of the tail begin with its first frame: a frame before it that waited as well,
// and was proven later, is not in them. The committer writes them as they are.
func TestTailBeginsWithItsFirstFrame(t *testing.T) {
	var log []byte
	var at []int64 // where each frame begins
	end := func() int64 { return int64(HeaderSize + len(log)) }
	add := func(durable int64) {
		at = append(at, end())
		c := &Chunk{Source: "s", Records: fmt.Appendf(nil, "{\"n\":%d}\n", len(at)), Count: 1}
		frame := AppendFrame(nil, c, crc32.Checksum(c.Records, castagnoli))
		Place(frame, 1, durable, uint64(len(at)))
		log = append(log, frame...)
	}
	add(end())
	add(end())
	add(end())
	add(at[2])
	add(at[3])                            // proves the third, and not the fourth
	clear(log[at[1]-HeaderSize:][:align]) // so that no header behind it is read beforehand
	file, err := disk.OS("").Create(filepath.Join(t.TempDir(), "segment"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteAt(log, HeaderSize); err != nil {
		t.Fatal(err)
	}
	stored := &Stored{Name: Name{FirstSeq: 1, Epoch: 1}, Size: end(), End: end(), Until: math.MaxUint64}
	s := Scan{Stored: stored, File: file, Records: true, From: HeaderSize, Next: 1}
	var synced, unsynced []uint64
	var tail []byte
	if err := s.Run(func(it *Item) error {
		switch {
		case it.Kind == IsTail:
			tail = it.Bytes
		case it.Kind == IsFrame && it.Synced:
			synced = append(synced, it.Frame.FirstSeq)
		case it.Kind == IsFrame:
			unsynced = append(unsynced, it.Frame.FirstSeq)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(synced, []uint64{1, 3}) || !slices.Equal(unsynced, []uint64{4, 5}) {
		t.Errorf("synced %v, not synced %v; want [1 3] and [4 5]", synced, unsynced)
	}
	if want := log[at[3]-HeaderSize:]; !bytes.Equal(tail, want) {
		t.Errorf("tail of %d bytes, want the %d of the frames that were not synced", len(tail), len(want))
	}
}
