package filesink

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io/fs"
	"os"
	"time"

	"github.com/google/uuid"
)

// position says what has been accepted. The zero position is that of a new
// directory.
type position struct {
	generation uint64    // rises with every position written
	queue      uuid.UUID // the queue of last
	last       uint64    // seq of the last record accepted of queue
	size       int64     // bytes of the active file that were accepted
	first      uint64    // seq of the first of them; 0 when size is 0
	opened     time.Time // when it was accepted; zero when size is 0
	finishing  time.Time // time in the name that the active file is to get; zero: none
}

// The position file has two slots, written in turn, so that the previous
// position outlives a torn write of the next. They lie 4096 bytes apart, the
// largest sector in use. Neither is ever empty: a new file has the position in
// both. A slot, integers big-endian:
//
//	 0  magic, with the format version
//	 8  generation
//	16  queue
//	32  last
//	40  size
//	48  first
//	56  opened, Unix nanoseconds, 0 for none
//	64  finishing, Unix nanoseconds, 0 for none
//	72  CRC-32C of all that
const (
	positionMagic    = "docketp1"
	positionBody     = 72
	positionSlot     = positionBody + crc32.Size
	slotDistance     = 4096
	positionFileSize = 2 * slotDistance
)

// offset is where p is written: the slot that its predecessor is not in.
func (p position) offset() int64 { return int64(p.generation%2) * slotDistance }

// encode appends p as a slot.
func (p position) encode(b []byte) []byte {
	start := len(b)
	b = append(b, positionMagic...)
	b = binary.BigEndian.AppendUint64(b, p.generation)
	b = append(b, p.queue[:]...)
	b = binary.BigEndian.AppendUint64(b, p.last)
	b = binary.BigEndian.AppendUint64(b, uint64(p.size))
	b = binary.BigEndian.AppendUint64(b, p.first)
	b = binary.BigEndian.AppendUint64(b, nanoseconds(p.opened))
	b = binary.BigEndian.AppendUint64(b, nanoseconds(p.finishing))
	return binary.BigEndian.AppendUint32(b, checksum(b[start:]))
}

// decodeSlot reads what encode wrote; ok is false for anything else.
func decodeSlot(b []byte) (p position, ok bool) {
	if len(b) < positionSlot || string(b[:8]) != positionMagic ||
		binary.BigEndian.Uint32(b[positionBody:]) != checksum(b[:positionBody]) {
		return position{}, false
	}
	return position{
		generation: binary.BigEndian.Uint64(b[8:]),
		queue:      uuid.UUID(b[16:32]),
		last:       binary.BigEndian.Uint64(b[32:]),
		size:       int64(binary.BigEndian.Uint64(b[40:])),
		first:      binary.BigEndian.Uint64(b[48:]),
		opened:     timeOf(binary.BigEndian.Uint64(b[56:])),
		finishing:  timeOf(binary.BigEndian.Uint64(b[64:])),
	}, true
}

// found is what there is of a position file.
type found struct {
	position position
	exists   bool
	sound    bool // position is the newest sound slot
	doubtful bool // the other slot is damaged, and may have been newer
}

func readPosition(path string) (found, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return found{}, nil
	}
	if err != nil {
		return found{}, err
	}
	f := found{exists: true}
	for offset := 0; offset < positionFileSize; offset += slotDistance {
		p, ok := decodeSlot(data[min(offset, len(data)):])
		if !ok {
			f.doubtful = true
		} else if !f.sound || p.generation > f.position.generation {
			f.position, f.sound = p, true
		}
	}
	return f, nil
}

func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

func nanoseconds(t time.Time) uint64 {
	if t.IsZero() {
		return 0
	}
	return uint64(t.UnixNano())
}

func timeOf(nanoseconds uint64) time.Time {
	if nanoseconds == 0 {
		return time.Time{}
	}
	return time.Unix(0, int64(nanoseconds)).UTC()
}
