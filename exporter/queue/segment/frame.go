// Package segment is the format of the queue's log: frames in segments, as the doc.go of
// package queue draws them, and the one reader that decides what is damage.
package segment

import (
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"time"
)

// The layout of a frame is drawn in doc.go.
const (
	frameMagic   = 0x314d4644 // "DFM1", little-endian
	frameVersion = 2
	// FrameFixed is the header without names and tallies.
	frameFixed = 72
	// align is the alignment of frames in a segment: after damage, the
	// next frame is looked for at these offsets only.
	align = 8

	maxName = math.MaxUint8 // bytes of a source, producer or tally

	// MaxPayload bounds the records of one chunk, in bytes. A length beyond it
	// is damage, so a reader never allocates for one.
	maxPayload = 64 << 20
)

// Offsets of the header's fields.
const (
	atMagic       = 0
	atVersion     = 4
	atSourceLen   = 5
	atProducerLen = 6
	atRefused     = 7
	atEpoch       = 8
	atDurable     = 16
	atFirstSeq    = 24
	atCount       = 32
	atPayloadLen  = 36
	atReceived    = 40
	atPosition    = 48
	atDuplicates  = 56
	atPayloadCRC  = 60
	atHeaderCRC   = 64
	atHeaderLen   = 68
	atLost        = 70
	atIdentityLen = 71
)

var frameMagicBytes = le.AppendUint32(nil, frameMagic)

// Chunk is what one frame keeps: records that arrived together from one
// producer, and what became of the other lines that arrived with them.
type Chunk struct {
	Source   string // at most 255 bytes, as the next two
	Identity string // of who sends; see Producer
	Producer string // empty when the producer does not number its lines
	// Position is the producer's number of the last line this chunk decides;
	// 0 without a producer. The lines of a chunk, which Count, Duplicates and
	// Refused add up to, follow each other.
	Position uint64
	Received time.Time
	// Lines is how many lines were read for this chunk, counted when they were read,
	// before their fate was decided. So a line without a fate shows in the account of
	// the source. Lines is not kept in the frame; see SourceTally.
	Lines int
	// Records are Count records, each without a newline and ended by one.
	Records    []byte
	Count      int
	Duplicates int     // lines recognised as stored before
	Refused    []Tally // lines that were not stored, by reason; at most 32
	// Lost are records that never arrived, as the producer says in Records, by
	// kind; at most 32, each count at most MaxLost. They count when Records do.
	Lost []Tally
}

// Check returns an error when c cannot be a frame: a fault of the caller.
func (c *Chunk) Check() error {
	switch {
	case len(c.Source) > maxName || len(c.Producer) > maxName || len(c.Identity) > maxName:
		return fmt.Errorf("queue: name of source, identity or producer longer than %d bytes", maxName)
	case len(c.Records) > maxPayload:
		return fmt.Errorf("queue: chunk of %d bytes, at most %d are allowed", len(c.Records), maxPayload)
	case (c.Count == 0) != (len(c.Records) == 0):
		return fmt.Errorf("queue: chunk says %d records in %d bytes", c.Count, len(c.Records))
	}
	return c.checkTallies()
}

// aligned is n, rounded up to where a frame may begin.
func aligned(n int) int { return (n + align - 1) &^ (align - 1) }

// FrameSize is the number of bytes c takes in a segment.
func (c *Chunk) FrameSize() int {
	return aligned(c.headerSize()) + aligned(len(c.Records))
}

// headerSize is the length of the frame's header before it is aligned.
func (c *Chunk) headerSize() int {
	return frameFixed + len(c.Source) + len(c.Producer) + len(c.Identity) +
		talliesSize(c.Refused, refusedCountBytes) + talliesSize(c.Lost, lostCountBytes)
}

// AppendFrame appends c's frame to b; crc is the checksum of its records. The
// place of the frame (epoch, durable, first seq) is not known yet: Place fills
// it in, with the header's checksum.
func AppendFrame(b []byte, c *Chunk, crc uint32) []byte {
	start := len(b)
	headerLen := aligned(c.headerSize())
	b = append(b, make([]byte, frameFixed)...)
	b = append(b, c.Source...)
	b = append(b, c.Producer...)
	b = append(b, c.Identity...)
	b = appendTallies(b, c.Refused, refusedCountBytes)
	b = appendTallies(b, c.Lost, lostCountBytes)
	b = pad(b, start+headerLen)
	b = append(b, c.Records...)
	b = pad(b, start+headerLen+aligned(len(c.Records)))

	h := b[start:]
	le.PutUint32(h[atMagic:], frameMagic)
	h[atVersion] = frameVersion
	h[atSourceLen] = byte(len(c.Source))
	h[atProducerLen] = byte(len(c.Producer))
	h[atRefused] = byte(len(c.Refused))
	h[atLost] = byte(len(c.Lost))
	h[atIdentityLen] = byte(len(c.Identity))
	le.PutUint32(h[atCount:], uint32(c.Count))
	le.PutUint32(h[atPayloadLen:], uint32(len(c.Records)))
	le.PutUint64(h[atReceived:], uint64(c.Received.UnixNano()))
	le.PutUint64(h[atPosition:], c.Position)
	le.PutUint32(h[atDuplicates:], uint32(c.Duplicates))
	le.PutUint32(h[atPayloadCRC:], crc)
	le.PutUint16(h[atHeaderLen:], uint16(headerLen))
	return b
}

// pad appends zeros up to a length of size.
func pad(b []byte, size int) []byte {
	for len(b) < size {
		b = append(b, 0)
	}
	return b
}

// Place writes the place of a frame into its header, and seals the header. b
// begins with the frame. Place returns the seq after the last record.
func Place(b []byte, epoch uint64, durable int64, firstSeq uint64) (next uint64) {
	le.PutUint64(b[atEpoch:], epoch)
	le.PutUint64(b[atDurable:], uint64(durable))
	le.PutUint64(b[atFirstSeq:], firstSeq)
	le.PutUint32(b[atHeaderCRC:], frameCRC(b[:le.Uint16(b[atHeaderLen:])]))
	return firstSeq + uint64(le.Uint32(b[atCount:]))
}

// frameCRC covers the whole header but the field it is kept in.
func frameCRC(h []byte) uint32 {
	crc := crc32.Update(0, castagnoli, h[:atHeaderCRC])
	return crc32.Update(crc, castagnoli, h[atHeaderCRC+4:])
}

// Frame is a decoded header. Its names alias the bytes it was read from.
type Frame struct {
	Epoch      uint64
	Durable    int64
	FirstSeq   uint64
	Count      int
	HeaderLen  int
	PayloadLen int
	payloadCRC uint32
	Received   int64 // Unix nanoseconds
	Position   uint64
	Duplicates uint32
	Source     []byte
	Producer   []byte
	Identity   []byte
	tallies    []byte // still encoded; see eachTally
	refused    int    // number of tallies of refused lines
	lost       int    // number of tallies of lost records, which follow
}

// Size is the frame's length in the segment.
func (f *Frame) Size() int { return f.HeaderLen + aligned(f.PayloadLen) }

// End is the seq after the frame's last record.
func (f *Frame) End() uint64 { return f.FirstSeq + uint64(f.Count) }

// Decided is how many lines have their fate in f.
func (f *Frame) Decided() uint64 {
	n := uint64(f.Count) + uint64(f.Duplicates)
	decodeTallies(f.tallies, f.refused, refusedCountBytes, func(_ []byte, refused uint64) { n += refused })
	return n
}

// Why bytes are not a frame.
var (
	errShort       = errors.New("incomplete frame")
	errNoFrame     = errors.New("no frame magic")
	errVersion     = errors.New("unknown frame version")
	errFrameHeader = errors.New("header checksum mismatch")
	errPayload     = errors.New("payload checksum mismatch")
	errStale       = errors.New("frame of another epoch")
	errSequence    = errors.New("frame out of sequence")
)

// ParseHeader decodes the header at the start of b. errShort means that b ends
// before the header does, which on disk is no different from damage.
func ParseHeader(b []byte) (Frame, error) {
	if len(b) < frameFixed {
		return Frame{}, errShort
	}
	if le.Uint32(b[atMagic:]) != frameMagic {
		return Frame{}, errNoFrame
	}
	headerLen := int(le.Uint16(b[atHeaderLen:]))
	if headerLen < frameFixed || headerLen%align != 0 {
		return Frame{}, errFrameHeader
	}
	if len(b) < headerLen {
		return Frame{}, errShort
	}
	h := b[:headerLen]
	if le.Uint32(h[atHeaderCRC:]) != frameCRC(h) {
		return Frame{}, errFrameHeader
	}
	if h[atVersion] != frameVersion {
		return Frame{}, errVersion
	}
	f := Frame{
		Epoch:      le.Uint64(h[atEpoch:]),
		Durable:    int64(le.Uint64(h[atDurable:])),
		FirstSeq:   le.Uint64(h[atFirstSeq:]),
		Count:      int(le.Uint32(h[atCount:])),
		HeaderLen:  headerLen,
		PayloadLen: int(le.Uint32(h[atPayloadLen:])),
		payloadCRC: le.Uint32(h[atPayloadCRC:]),
		Received:   int64(le.Uint64(h[atReceived:])),
		Position:   le.Uint64(h[atPosition:]),
		Duplicates: le.Uint32(h[atDuplicates:]),
		refused:    int(h[atRefused]),
		lost:       int(h[atLost]),
	}
	if frameFixed+int(h[atSourceLen])+int(h[atProducerLen])+int(h[atIdentityLen]) > headerLen || f.PayloadLen > maxPayload {
		return Frame{}, errFrameHeader
	}
	f.alias(h)
	return f, nil
}

// alias points the names and tallies of f at h, which is its whole header.
func (f *Frame) alias(h []byte) {
	names := h[frameFixed:f.HeaderLen]
	sourceLen, producerLen, identityLen := int(h[atSourceLen]), int(h[atProducerLen]), int(h[atIdentityLen])
	f.Source, names = names[:sourceLen], names[sourceLen:]
	f.Producer, names = names[:producerLen], names[producerLen:]
	f.Identity, f.tallies = names[:identityLen], names[identityLen:]
}

// CheckPayload returns errShort or errPayload unless b, which begins with the
// frame, holds its whole and undamaged payload.
func (f *Frame) CheckPayload(b []byte) error {
	if len(b) < f.HeaderLen+f.PayloadLen {
		return errShort
	}
	if crc32.Checksum(b[f.HeaderLen:f.HeaderLen+f.PayloadLen], castagnoli) != f.payloadCRC {
		return errPayload
	}
	return nil
}
