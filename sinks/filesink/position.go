package filesink

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/google/uuid"

	"github.com/docket-export/docket/sinks"
	"github.com/docket-export/docket/sinks/filesink/manifest"
)

// position says what has been accepted. The zero position is that of a new
// directory.
type position struct {
	generation uint64        // rises with every position written
	queue      uuid.UUID     // the line of last: see "Lines"
	lineage    sinks.Lineage // the newest incarnations of the queue, those of the active file among them
	last       uint64        // the last seq that was accepted of queue, as a record or in a gap; 0: none yet
	lost       bool          // there was another position before, and nobody knows what it said

	file // the active one; only its lastRecord and lastReceived when it is empty

	finishing time.Time // time in the name that the active file is to get; zero: none

	manifest int64         // bytes of the manifest that were accepted
	chain    manifest.Hash // of the last line in them
	settled  int64         // the files that lines before say are removed are so

	gaps   int64  // bytes of the gap log that were accepted
	gapSum uint32 // their CRC-32C
}

// file is what was accepted in the active file.
type file struct {
	form          form
	size          int64     // bytes
	records       uint64    // lines
	first         uint64    // seq of the first record
	lastRecord    uint64    // and that of the last one, of the file before when this one is empty; 0: not known
	opened        time.Time // when the first record that is no checkpoint was written; zero: there is none
	firstReceived time.Time // when the exporter read the first record
	lastReceived  time.Time // and when the last one
	sum           hashState
}

// hasNews reports whether a record was accepted that is no checkpoint.
func (f *file) hasNews() bool { return !f.opened.IsZero() }

// hashSize is the size of the state of a SHA-256 as its package writes it.
const hashSize = 108

// hashState is a SHA-256 that can be gone on with. The standard library promises
// that later versions read it.
type hashState [hashSize]byte

// The position file begins with two slots, written in turn, so that the previous
// position outlives a torn write of the next. They lie 4096 bytes apart, the
// largest sector in use, and are smaller than the smallest, so each is written
// whole or not at all. Neither is ever empty: a new file has the position in both.
// A slot, integers big-endian, times in Unix nanoseconds with 0 for none:
//
//	  0  magic, with the format version
//	  8  generation
//	 16  queue
//	 32  last
//	 40  size
//	 48  records
//	 56  first
//	 64  lastRecord
//	 72  opened
//	 80  firstReceived
//	 88  lastReceived
//	 96  finishing
//	104  manifest
//	112  settled
//	120  gaps
//	128  gapSum
//	132  form
//	133  flags: 1 lost
//	134  chain
//	166  sum
//	274  CRC-32C of all that
//
// Behind the slots lies the lineage, which the file has from its beginning: its CRC-32C, its size,
// 4 bytes each, and JSON. Behind that lies the gap log: see gaplog.go. Version 2 has no lineage,
// and the gap log in its place.
const (
	positionMagic   = "docketp3" // its last character is the version
	positionVersion = 3
	positionBefore  = 2 // is read too
	positionBody    = 274
	positionSlot    = positionBody + crc32.Size
	slotDistance    = 4096
	slotsEnd        = 2 * slotDistance
	gapLogStart     = slotsEnd + slotDistance

	flagLost = 1
)

// offset is where p is written: the slot that its predecessor is not in.
func (p position) offset() int64 { return int64(p.generation%2) * slotDistance }

// encode appends p as a slot.
func (p position) encode(b []byte) []byte {
	start := len(b)
	b = append(b, positionMagic...)
	b = binary.BigEndian.AppendUint64(b, p.generation)
	b = append(b, p.queue[:]...)
	for _, n := range []uint64{
		p.last, uint64(p.size), p.records, p.first, p.lastRecord,
		nanoseconds(p.opened), nanoseconds(p.firstReceived), nanoseconds(p.lastReceived), nanoseconds(p.finishing),
		uint64(p.manifest), uint64(p.settled), uint64(p.gaps),
	} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	b = binary.BigEndian.AppendUint32(b, p.gapSum)
	b = append(b, byte(p.form), p.flags())
	b = append(b, p.chain[:]...)
	b = append(b, p.sum[:]...)
	return binary.BigEndian.AppendUint32(b, checksum(b[start:]))
}

func (p position) flags() (flags byte) {
	if p.lost {
		flags |= flagLost
	}
	return flags
}

// decodeSlot reads what encode wrote; ok is false for anything else.
func decodeSlot(b []byte) (p position, ok bool) {
	if len(b) < positionSlot || !isOurs(slotVersion(b)) || !bytes.HasPrefix(b, []byte(positionMagic[:len(positionMagic)-1])) ||
		binary.BigEndian.Uint32(b[positionBody:]) != checksum(b[:positionBody]) || b[132] >= byte(forms) {
		return position{}, false
	}
	number := func(at int) uint64 { return binary.BigEndian.Uint64(b[at:]) }
	return position{
		generation: number(8),
		queue:      uuid.UUID(b[16:32]),
		last:       number(32),
		lost:       b[133]&flagLost != 0,
		file: file{
			form: form(b[132]), size: int64(number(40)), records: number(48), first: number(56), lastRecord: number(64),
			opened: timeOf(number(72)), firstReceived: timeOf(number(80)), lastReceived: timeOf(number(88)),
			sum: hashState(b[166:positionBody]),
		},
		finishing: timeOf(number(96)),
		manifest:  int64(number(104)),
		settled:   int64(number(112)),
		chain:     manifest.Hash(b[134:166]),
		gaps:      int64(number(120)),
		gapSum:    binary.BigEndian.Uint32(b[128:]),
	}, true
}

// withoutFile is p when the active file is empty and there are no gaps.
func (p position) withoutFile() position {
	return position{
		generation: p.generation, queue: p.queue, lineage: p.lineage, last: p.last, lost: p.lost,
		file:     file{lastRecord: p.lastRecord, lastReceived: p.lastReceived},
		manifest: p.manifest, chain: p.chain, settled: p.settled,
	}
}

// encodeLineage returns what stands between the slots and the gap log.
func encodeLineage(l sinks.Lineage) []byte {
	text, err := json.Marshal(l)
	if err != nil || 8+len(text) > slotDistance {
		panic(fmt.Sprintf("file sink: a lineage of %d bytes: %v", len(text), err)) // KeptIncarnations are far less
	}
	b := binary.BigEndian.AppendUint32(nil, checksum(text))
	b = binary.BigEndian.AppendUint32(b, uint32(len(text)))
	return append(append(b, text...), make([]byte, slotDistance-8-len(text))...)
}

// decodeLineage reads what encodeLineage wrote; ok is false for anything else.
func decodeLineage(b []byte) (l sinks.Lineage, ok bool) {
	if len(b) < 8 {
		return nil, false
	}
	n := binary.BigEndian.Uint32(b[4:])
	if uint64(n) > uint64(len(b)-8) || checksum(b[8:8+n]) != binary.BigEndian.Uint32(b) {
		return nil, false
	}
	return l, json.Unmarshal(b[8:8+n], &l) == nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

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
