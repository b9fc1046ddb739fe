package queue

import "hash/crc32"

// Offsets in the header of a frame, as doc.go has them.
const (
	frameEpochAt = 8
	frameSeqAt   = 24
)

// headerSum is the checksum of a segment's header.
func headerSum(b []byte) uint32 {
	return crc32.Update(crc32.Checksum(b[:12], castagnoli), castagnoli, b[16:80])
}
