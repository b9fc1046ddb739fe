package webhook

import "sync/atomic"

const (
	// maxMemory bounds what is kept of all exchanges at a time: hundreds of ordinary
	// ones take a megabyte. A review beyond it passes, and its record is lost.
	maxMemory = 32 << 20
	// maxHeld bounds an answer that is held: a patch that makes an object of the size that
	// etcd takes is smaller.
	maxHeld = 4 << 20
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
