package queue

import (
	"bytes"
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

	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/internal/fileversion"
)

const (
	segmentMagic = "docketsg"
	// segmentVersion is 2 since frames have an identity: an earlier docket would take
	// such frames for damage.
	segmentVersion    = 2
	segmentVersionMin = 1
	// segmentHeaderSize gives the header a disk block of its own, so that no
	// write of a frame can tear it.
	segmentHeaderSize = 4096
	segmentHeaderUsed = 80

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
	// size is that of the file: more than end.
	size atomic.Int64
	// newest is when the last record was received, or a little later; Unix
	// nanoseconds, 0: unknown.
	newest atomic.Int64
	// unreadable is set when damage in the segment could not be copied to
	// quarantine: the segment goes there as a whole instead of being removed.
	unreadable atomic.Bool

	// The rest is guarded by Queue.mu.

	// sealed says that nothing is added any more, and that a checkpoint which
	// covers the segment is under way.
	sealed bool
	// failed says that a write or a sync did: the file is not used again.
	failed bool
	// gone says that the segment is no longer part of the queue.
	gone bool
	// readers is the number of cursors that have the file open.
	readers int
	// trimmed says that the file was cut to what the segment uses.
	trimmed bool
	// released says that the segment is needed for something else than Retain.
	released bool
}

func newSegment(name segmentName, end, size int64) *segment {
	s := &segment{segmentName: name}
	s.end.Store(end)
	s.size.Store(size)
	s.until.Store(math.MaxUint64)
	return s
}

// segmentHeader is what the header says beside the segment's name.
type segmentHeader struct {
	queue   uuid.UUID
	created int64 // Unix nanoseconds; encodeSegmentHeader fills it in
	// prevEpoch and prevEnd are the epoch of the segment before and the offset
	// up to which that was durable when this one was begun. What stands beyond
	// was left behind by a commit that went on here. Zero when there was none.
	prevEpoch uint64
	prevEnd   int64
	// prevNewest is when the last record of that one was received, Unix nanoseconds;
	// 0 when it is not known.
	prevNewest int64
}

// writeSegmentHeader makes f the file of a segment, still without its name.
func writeSegmentHeader(f disk.File, header segmentHeader, name segmentName) error {
	if _, err := f.WriteAt(encodeSegmentHeader(header, name), 0); err != nil {
		return fmt.Errorf("segment %s: write header: %w", name, err)
	}
	return nil
}

// nameSegment gives the file of a segment its name, durably. So a segment that is
// found under its own name has taken over from the one before it, and whatever a
// crash leaves under another counts for nothing.
func nameSegment(fsys disk.FS, dir, from string, name segmentName) error {
	err := fsys.Rename(filepath.Join(dir, from), filepath.Join(dir, name.String()))
	if err == nil {
		err = fsys.SyncDir(dir)
	}
	if err != nil {
		return fmt.Errorf("segment %s: name: %w", name, err)
	}
	return nil
}

func encodeSegmentHeader(header segmentHeader, name segmentName) []byte {
	b := make([]byte, segmentHeaderSize)
	copy(b, segmentMagic)
	le.PutUint32(b[8:], segmentVersion)
	le.PutUint64(b[16:], name.epoch)
	le.PutUint64(b[24:], name.firstSeq)
	copy(b[32:48], header.queue[:])
	le.PutUint64(b[48:], uint64(time.Now().UnixNano()))
	le.PutUint64(b[56:], header.prevEpoch)
	le.PutUint64(b[64:], uint64(header.prevEnd))
	le.PutUint64(b[72:], uint64(header.prevNewest))
	le.PutUint32(b[12:], segmentHeaderCRC(b))
	return b
}

func segmentHeaderCRC(b []byte) uint32 {
	crc := crc32.Update(0, castagnoli, b[:12])
	return crc32.Update(crc, castagnoli, b[16:segmentHeaderUsed])
}

func isSegmentHeader(b []byte) bool {
	return string(b[:8]) == segmentMagic && le.Uint32(b[12:]) == segmentHeaderCRC(b)
}

// checkSegmentVersion fails with *fileversion.Error when a whole header, of the file at
// path, is of a version that this docket does not read.
func checkSegmentVersion(b []byte, path string) error {
	if v := le.Uint32(b[8:]); v < segmentVersionMin || v > segmentVersion {
		return &fileversion.Error{File: path, Found: uint64(v), Known: segmentVersion}
	}
	return nil
}

// spareEpoch returns the last epoch in which f, at path, was a segment, 0 when it never
// was one. Without a whole header nothing is known of what f holds.
func spareEpoch(f disk.File, path string) (uint64, error) {
	b := make([]byte, segmentHeaderUsed)
	if _, err := readFull(f, b, 0); err != nil {
		return 0, err
	}
	switch {
	case isSegmentHeader(b):
		return le.Uint64(b[16:]), checkSegmentVersion(b, path)
	case bytes.Equal(b, zeros[:len(b)]):
		return 0, nil
	}
	return 0, errSegmentHeader
}

// errSegmentHeader says that a segment's header is damaged or missing. Its
// frames may be whole: they carry all that matters.
var errSegmentHeader = errors.New("segment header damaged")

// readSegmentHeader reads the header of f, the segment in dir with this name. It fails
// with errSegmentHeader when the header is not whole or not that of such a segment, and
// with *fileversion.Error when it is whole and of another version.
func readSegmentHeader(f disk.File, dir string, name segmentName) (segmentHeader, error) {
	b := make([]byte, segmentHeaderUsed)
	if _, err := readFull(f, b, 0); errors.Is(err, io.EOF) {
		return segmentHeader{}, errSegmentHeader
	} else if err != nil {
		return segmentHeader{}, fmt.Errorf("%w: %w", errSegmentHeader, err)
	}
	if !isSegmentHeader(b) {
		return segmentHeader{}, errSegmentHeader
	}
	if err := checkSegmentVersion(b, filepath.Join(dir, name.String())); err != nil {
		return segmentHeader{}, err
	}
	if le.Uint64(b[16:]) != name.epoch || le.Uint64(b[24:]) != name.firstSeq {
		return segmentHeader{}, errSegmentHeader
	}
	return segmentHeader{
		queue:     uuid.UUID(b[32:48]),
		created:   int64(le.Uint64(b[48:])),
		prevEpoch: le.Uint64(b[56:]),
		prevEnd:   int64(le.Uint64(b[64:])),

		prevNewest: int64(le.Uint64(b[72:])),
	}, nil
}
