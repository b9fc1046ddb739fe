package state

import (
	"encoding/binary"
	"hash/crc32"
)

var (
	le         = binary.LittleEndian
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)
