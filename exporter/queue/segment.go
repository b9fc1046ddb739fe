package queue

import (
	"cmp"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

const (
	segmentMagic   = "docketsg"
	segmentVersion = 1
	// segmentHeaderSize gives the header a disk block of its own, so that no
	// write of a frame can tear it.
	segmentHeaderSize = 4096
	segmentHeaderUsed = 64

	segmentSuffix = ".segment"
)

// segmentName orders by first seq and then by epoch, in a directory listing too.
// Two segments can begin with one seq: the first of them failed before anything
// in it was durable.
type segmentName struct {
	firstSeq uint64
	epoch    uint64
}

func (n segmentName) String() string {
	return fmt.Sprintf("%020d-%010d%s", n.firstSeq, n.epoch, segmentSuffix)
}

func (n segmentName) compare(o segmentName) int {
	return cmp.Or(cmp.Compare(n.firstSeq, o.firstSeq), cmp.Compare(n.epoch, o.epoch))
}

func parseSegmentName(name string) (segmentName, bool) {
	stem, ok := strings.CutSuffix(name, segmentSuffix)
	if !ok {
		return segmentName{}, false
	}
	first, epoch, ok := strings.Cut(stem, "-")
	if !ok {
		return segmentName{}, false
	}
	firstSeq, err1 := strconv.ParseUint(first, 10, 64)
	epochNo, err2 := strconv.ParseUint(epoch, 10, 64)
	n := segmentName{firstSeq, epochNo}
	return n, err1 == nil && err2 == nil && n.String() == name
}

// segment is one file of frames. Everything below end is durable and never
// changes again. It holds no open file: the committer and every cursor have
// their own, so that a segment can be removed while a cursor is still reading.
type segment struct {
	segmentName

	// end is the offset after the last durable frame. Written by the committer,
	// read by cursors.
	end atomic.Int64
	// until is the seq at which the next segment takes over. Frames at or
	// beyond it, left behind by a failed commit, are not this segment's to
	// deliver. MaxUint64 while the segment is the last one.
	until atomic.Uint64
}

func newSegment(name segmentName, end int64) *segment {
	s := &segment{segmentName: name}
	s.end.Store(end)
	s.until.Store(math.MaxUint64)
	return s
}

// createSegment makes a segment whose header and name are durable, and returns
// it with its file open for the committer.
func createSegment(fsys FS, dir string, id uuid.UUID, name segmentName) (*segment, File, error) {
	path := filepath.Join(dir, name.String())
	f, err := fsys.Create(path)
	if err != nil {
		return nil, nil, fmt.Errorf("segment %s: create: %w", name, err)
	}
	if err := initSegment(fsys, dir, f, id, name); err != nil {
		return nil, nil, errors.Join(
			fmt.Errorf("segment %s: create: %w", name, err),
			f.Close(),
			fsys.Remove(path)) // what stays behind has no frames, and the next Open removes it
	}
	return newSegment(name, segmentHeaderSize), f, nil
}

func initSegment(fsys FS, dir string, f File, id uuid.UUID, name segmentName) error {
	if _, err := f.WriteAt(encodeSegmentHeader(id, name), 0); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return fsys.SyncDir(dir)
}

func encodeSegmentHeader(id uuid.UUID, name segmentName) []byte {
	b := make([]byte, segmentHeaderSize)
	copy(b, segmentMagic)
	le.PutUint32(b[8:], segmentVersion)
	le.PutUint64(b[16:], name.epoch)
	le.PutUint64(b[24:], name.firstSeq)
	copy(b[32:48], id[:])
	le.PutUint64(b[48:], uint64(time.Now().UnixNano()))
	le.PutUint32(b[12:], segmentHeaderCRC(b))
	return b
}

func segmentHeaderCRC(b []byte) uint32 {
	crc := crc32.Update(0, castagnoli, b[:12])
	return crc32.Update(crc, castagnoli, b[16:segmentHeaderUsed])
}

// errSegmentHeader says that a segment's header is damaged or missing. Its
// frames may be whole: they carry all that matters.
var errSegmentHeader = errors.New("segment header damaged")

// readSegmentHeader returns the id of the queue that the segment belongs to.
func readSegmentHeader(f File, name segmentName) (uuid.UUID, error) {
	b := make([]byte, segmentHeaderUsed)
	if _, err := readFull(f, b, 0); err != nil {
		if errors.Is(err, io.EOF) {
			return uuid.Nil, errSegmentHeader
		}
		return uuid.Nil, err
	}
	if string(b[:8]) != segmentMagic || le.Uint32(b[12:]) != segmentHeaderCRC(b) {
		return uuid.Nil, errSegmentHeader
	}
	if v := le.Uint32(b[8:]); v != segmentVersion {
		return uuid.Nil, fmt.Errorf("format version %d, this docket reads version %d: use the version that wrote it", v, segmentVersion)
	}
	if le.Uint64(b[16:]) != name.epoch || le.Uint64(b[24:]) != name.firstSeq {
		return uuid.Nil, errSegmentHeader
	}
	return uuid.UUID(b[32:48]), nil
}
