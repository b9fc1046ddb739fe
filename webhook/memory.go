package webhook

import "sync/atomic"

const (
	// maxMemory bounds what is kept of all exchanges at a time: hundreds of ordinary
	// ones take a megabyte. A review beyond it passes, and its record is lost.
	maxMemory = 32 << 20
	// maxHeld bounds an answer that is held: a patch that makes an object of the size that
	// etcd takes is smaller.
	maxHeld = 4 << 20
	// maxZipped bounds a body in gzip, which is unpacked when it is there as a whole.
	maxZipped = 1 << 20
	// maxUnzipped bounds what is unpacked of it: two objects of the 3 MiB that the API server
	// takes, which sends nothing in gzip itself.
	maxUnzipped = 8 << 20
	// maxZipRatio bounds it for small bodies too, so that those which wait cost seconds
	// together, not hours. JSON is seldom packed to a twentieth.
	maxZipRatio = 64
)

// memory counts what is kept of all exchanges.
type memory struct{ used atomic.Int64 }

// grow counts n bytes more, or less. It is false, and counts nothing, when that is too much.
func (m *memory) grow(n int) bool {
	if m.used.Add(int64(n)) <= maxMemory || n <= 0 {
		return true
	}
	m.used.Add(int64(-n))
	return false
}
