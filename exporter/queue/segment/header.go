package segment

import (
	"cmp"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/docket-export/docket/internal/fileversion"
)

const (
	magic   = "docketsg"
	version = 3
	// HeaderSize gives the header a disk block of its own, so that no
	// write of a frame can tear it.
	HeaderSize = 4096
	// headerSummed is what the checksum covers, of any version.
	headerSummed = 80
	headerUsed   = 100

	// Suffix ends the name of a segment.
	suffix = ".segment"
)

// Name orders by first seq and then by epoch, in a directory listing too.
// Two segments can begin with one seq: the first of them failed before anything
// in it was durable.
type Name struct {
	FirstSeq uint64
	Epoch    uint64
}

func (n Name) String() string {
	return fmt.Sprintf("%020d-%010d%s", n.FirstSeq, n.Epoch, suffix)
}

// Compare orders names as their segments follow each other.
func (n Name) Compare(o Name) int {
	return cmp.Or(cmp.Compare(n.FirstSeq, o.FirstSeq), cmp.Compare(n.Epoch, o.Epoch))
}

// ParseName is the inverse of String; ok is false for any other file.
func ParseName(name string) (Name, bool) {
	stem, ok := strings.CutSuffix(name, suffix)
	if !ok {
		return Name{}, false
	}
	first, epoch, ok := strings.Cut(stem, "-")
	if !ok {
		return Name{}, false
	}
	firstSeq, err1 := strconv.ParseUint(first, 10, 64)
	epochNo, err2 := strconv.ParseUint(epoch, 10, 64)
	n := Name{firstSeq, epochNo}
	return n, err1 == nil && err2 == nil && n.String() == name
}

// Header is what the header says beside the segment's name.
type Header struct {
	Queue uuid.UUID
	// Incarnation is the start of the queue that stored the records, the first half of their
	// ids.
	Incarnation uuid.UUID
	created     int64 // Unix nanoseconds; encodeHeader fills it in
	// PrevEpoch is the epoch of the previous segment. PrevEnd is the offset up to
	// which it was durable when this segment was begun: bytes beyond are the rest
	// of a commit that continued here. Zero without a previous segment.
	PrevEpoch uint64
	PrevEnd   int64
	// PrevNewest is when the last record of the previous segment was received, Unix
	// nanoseconds; 0 when it is not known.
	PrevNewest int64
}

// WriteHeader makes f the file of a segment, still without its name.
func WriteHeader(f io.WriterAt, header Header, name Name) error {
	if _, err := f.WriteAt(encodeHeader(header, name), 0); err != nil {
		return fmt.Errorf("segment %s: write header: %w", name, err)
	}
	return nil
}

// encodeHeader returns the first block of a segment.
func encodeHeader(header Header, name Name) []byte {
	b := make([]byte, HeaderSize)
	copy(b, magic)
	le.PutUint32(b[8:], version)
	le.PutUint64(b[16:], name.Epoch)
	le.PutUint64(b[24:], name.FirstSeq)
	copy(b[32:48], header.Queue[:])
	le.PutUint64(b[48:], uint64(time.Now().UnixNano()))
	le.PutUint64(b[56:], header.PrevEpoch)
	le.PutUint64(b[64:], uint64(header.PrevEnd))
	le.PutUint64(b[72:], uint64(header.PrevNewest))
	copy(b[80:96], header.Incarnation[:])
	le.PutUint32(b[96:], crc32.Checksum(b[80:96], castagnoli))
	le.PutUint32(b[12:], headerCRC(b))
	return b
}

func headerCRC(b []byte) uint32 {
	crc := crc32.Update(0, castagnoli, b[:12])
	return crc32.Update(crc, castagnoli, b[16:headerSummed])
}

func isHeader(b []byte) bool {
	return string(b[:8]) == magic && le.Uint32(b[12:]) == headerCRC(b)
}

// checkVersion fails with *fileversion.Error when a whole header, of the file at
// path, is of a version that this docket does not read.
func checkVersion(b []byte, path string) error {
	if v := le.Uint32(b[8:]); v != version {
		return &fileversion.Error{File: path, Found: uint64(v), Known: version}
	}
	return nil
}

// errHeader says that a segment's header is damaged or missing. Its
// frames may be whole: they carry all that matters.
var errHeader = errors.New("segment header damaged")

// readHeader reads the header of f, the segment in dir with this name. It fails
// with errHeader when the header is not whole or not that of such a segment, and
// with *fileversion.Error when it is whole and of another version.
func readHeader(f io.ReaderAt, dir string, name Name) (Header, error) {
	b := make([]byte, headerUsed)
	if _, err := readFullAt(f, b, 0); errors.Is(err, io.EOF) {
		return Header{}, errHeader
	} else if err != nil {
		return Header{}, fmt.Errorf("%w: %w", errHeader, err)
	}
	if !isHeader(b) {
		return Header{}, errHeader
	}
	if err := checkVersion(b, filepath.Join(dir, name.String())); err != nil {
		return Header{}, err
	}
	if le.Uint64(b[16:]) != name.Epoch || le.Uint64(b[24:]) != name.FirstSeq {
		return Header{}, errHeader
	}
	incarnation := uuid.UUID(b[80:96])
	if crc32.Checksum(incarnation[:], castagnoli) != le.Uint32(b[96:]) {
		return Header{}, errHeader
	}
	return Header{
		Queue:       uuid.UUID(b[32:48]),
		Incarnation: incarnation,

		created:   int64(le.Uint64(b[48:])),
		PrevEpoch: le.Uint64(b[56:]),
		PrevEnd:   int64(le.Uint64(b[64:])),

		PrevNewest: int64(le.Uint64(b[72:])),
	}, nil
}
