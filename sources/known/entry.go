package known

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
)

const (
	entryMagic  = "DKI1" // its last character is the version
	version     = 1
	entryHeader = 32
	entryAlign  = 16
	// maxEntryIDs bounds what one entry holds when the file is written anew.
	maxEntryIDs = 4096
	maxEntry    = entryHeader + maxEntryIDs*int64(len(ID{}))

	atCount   = 4
	atFirst   = 8
	atSettled = 16
	atCRC     = 24
)

var (
	le         = binary.LittleEndian
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

// entry is what one piece of the file says.
type entry struct {
	first   uint64
	settled uint64
	ids     []byte // of len(ID{}) bytes each
}

// appendEntry appends an entry to b.
func appendEntry(b []byte, first, settled uint64, ids []ID) []byte {
	start := len(b)
	b = append(b, entryMagic...)
	b = le.AppendUint32(b, uint32(len(ids)))
	b = le.AppendUint64(b, first)
	b = le.AppendUint64(b, settled)
	b = le.AppendUint64(b, 0)
	for i := range ids {
		b = append(b, ids[i][:]...)
	}
	le.PutUint32(b[start+atCRC:], entryCRC(b[start:]))
	return b
}

// appendEntries appends entries with what is known to b, and before them one that holds
// no more than settled. Numbers without an identity are left out: an entry ends where
// the numbers have a gap.
func appendEntries(b []byte, records []numbered, next, settled uint64) []byte {
	b = appendEntry(b, next, settled, nil)
	var ids []ID
	for i, r := range records {
		ids = append(ids, r.id)
		if i+1 == len(records) || len(ids) == maxEntryIDs || records[i+1].number != r.number+1 {
			b = appendEntry(b, r.number+1-uint64(len(ids)), settled, ids)
			ids = ids[:0]
		}
	}
	return b
}

// entryCRC covers an entry but the field it is kept in.
func entryCRC(b []byte) uint32 {
	crc := crc32.Update(0, castagnoli, b[:atCRC])
	crc = crc32.Update(crc, castagnoli, []byte{0, 0, 0, 0})
	return crc32.Update(crc, castagnoli, b[atCRC+4:])
}

// scan calls visit with the entries of data, in their order, and returns how many bytes
// other than zeros it had to skip.
func scan(data []byte, visit func(entry)) (skipped int) {
	for len(data) > 0 {
		if size := entryAt(data); size > 0 {
			visit(entry{first: le.Uint64(data[atFirst:]), settled: le.Uint64(data[atSettled:]), ids: data[entryHeader:size]})
			data = data[size:]
			continue
		}
		zeros := len(data) - len(bytes.TrimLeft(data, "\x00"))
		if zeros == len(data) {
			break
		}
		n := zeros / entryAlign * entryAlign // entries begin nowhere else
		if n == 0 {
			n = min(entryAlign, len(data))
			skipped += n
		}
		data = data[n:]
	}
	return skipped
}

// entryAt returns the size of the entry that data begins with, 0 when there is none.
func entryAt(data []byte) int {
	if !bytes.HasPrefix(data, []byte(entryMagic)) {
		return 0
	}
	return sizeAt(data)
}

// sizeAt is entryAt for an entry of any version: the header and its checksum stay.
func sizeAt(data []byte) int {
	if len(data) < entryHeader {
		return 0
	}
	count := uint64(le.Uint32(data[atCount:]))
	if count > uint64(len(data)-entryHeader)/uint64(len(ID{})) {
		return 0
	}
	size := entryHeader + int(count)*len(ID{})
	if le.Uint32(data[atCRC:]) != entryCRC(data[:size]) {
		return 0
	}
	return size
}

// versionAt is that of the entry that data begins with. Without its checksum no version is
// believed: what is damaged counts as ours.
func versionAt(data []byte) uint64 {
	last := len(entryMagic) - 1
	if !bytes.HasPrefix(data, []byte(entryMagic[:last])) || sizeAt(data) == 0 || data[last] < '0' || data[last] > '9' {
		return version
	}
	return uint64(data[last] - '0')
}
