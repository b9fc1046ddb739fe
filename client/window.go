package client

// firstRing is the size a window starts with; it doubles as it is needed.
const firstRing = 64 << 10

// window holds the lines that the exporter has not handled yet, one behind the
// other in a ring of bytes, each with its newline, so that many of them are one
// write and sending them again needs no second copy.
//
// A byte has an offset, counted from the first line ever and never reused; it
// lies at buf[offset % len(buf)].
type window struct {
	maxBytes int
	maxLines int

	buf  []byte
	tail uint64 // offset of the oldest line
	head uint64 // offset behind the newest line

	// ends are the offsets behind the lines, a ring as well: the line with the
	// number first is at ends[firstAt].
	ends    []uint64
	firstAt int
	first   uint64 // number of the oldest line, or of the next one if there is none
	count   int

	// What a write is reading now must not be overwritten, even where the
	// exporter has handled it already. Set while pinned.
	pinned bool
	pin    uint64
}

func newWindow(maxBytes, maxLines int) window {
	return window{maxBytes: maxBytes, maxLines: maxLines, first: 1}
}

// push adds a line. It is false when there is no room.
func (w *window) push(line []byte) bool {
	used := int(w.head - w.floor())
	if w.count == w.maxLines || used+len(line)+1 > w.maxBytes {
		return false
	}
	w.growBytes(used + len(line) + 1)
	w.growLines()
	w.append(line)
	w.append(newline)
	w.ends[(w.firstAt+w.count)%len(w.ends)] = w.head
	w.count++
	return true
}

var newline = []byte{'\n'}

// floor is the offset of the oldest byte that is still needed.
func (w *window) floor() uint64 {
	if w.pinned {
		return min(w.pin, w.tail)
	}
	return w.tail
}

func (w *window) append(b []byte) {
	at := int(w.head % uint64(len(w.buf)))
	n := copy(w.buf[at:], b)
	copy(w.buf, b[n:])
	w.head += uint64(len(b))
}

// growBytes makes the ring large enough for size bytes. A write that is under
// way keeps the old one.
func (w *window) growBytes(size int) {
	if size <= len(w.buf) {
		return
	}
	length := max(len(w.buf), firstRing)
	for length < size {
		length *= 2
	}
	old := *w
	w.buf = make([]byte, min(length, w.maxBytes))
	w.head = w.tail
	for w.head < old.head {
		w.append(old.piece(w.head, len(old.buf)))
	}
}

func (w *window) growLines() {
	if w.count < len(w.ends) {
		return
	}
	ends := make([]uint64, min(max(2*len(w.ends), 64), w.maxLines))
	for i := range w.count {
		ends[i] = w.ends[(w.firstAt+i)%len(w.ends)]
	}
	w.ends, w.firstAt = ends, 0
}

// last is the number of the newest line ever pushed.
func (w *window) last() uint64 { return w.first + uint64(w.count) - 1 }

// end is the offset behind line n, which the window must hold.
func (w *window) end(n uint64) uint64 {
	return w.ends[(w.firstAt+int(n-w.first))%len(w.ends)]
}

// piece returns the bytes from offset on that lie in one stretch, at most size.
func (w *window) piece(offset uint64, size int) []byte {
	at := int(offset % uint64(len(w.buf)))
	n := min(size, int(w.head-offset), len(w.buf)-at)
	return w.buf[at : at+n : at+n]
}

// release drops every line up to n, which the window must hold.
func (w *window) release(n uint64) {
	w.tail = w.end(n)
	gone := int(n - w.first + 1)
	w.firstAt = (w.firstAt + gone) % len(w.ends)
	w.first += uint64(gone)
	w.count -= gone
}
