package streamsource

import (
	"net"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// From here on a larger read no longer makes the reading cheaper.
	readBuffer = 256 << 10
	// maxLent bounds what the large buffers of a source take together: 16 MiB.
	// Beyond that many connections that are busy at the same moment the others
	// read less at a time.
	maxLent = 64
)

// buffers lends large buffers to connections for as long as they have much to
// read. Those that are not in use are left to the garbage collector. Safe for
// concurrent use; the zero value is ready.
type buffers struct {
	free sync.Pool // of *[readBuffer]byte
	lent atomic.Int32
}

// lend returns a buffer of readBuffer bytes, nil when there are enough of them.
func (b *buffers) lend() []byte {
	if b.lent.Add(1) > maxLent {
		b.lent.Add(-1)
		return nil
	}
	if buf, ok := b.free.Get().(*[readBuffer]byte); ok {
		return buf[:]
	}
	return make([]byte, readBuffer)
}

// giveBack takes a buffer that lend returned, and that nothing refers to any more.
func (b *buffers) giveBack(buf []byte) {
	b.free.Put((*[readBuffer]byte)(buf))
	b.lent.Add(-1)
}

// hasBytes reports whether bytes have arrived at a socket that nobody has read.
func hasBytes(nc net.Conn) bool {
	socket, ok := nc.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return false
	}
	var n int
	var ioctl error
	err = raw.Control(func(fd uintptr) { n, ioctl = unix.IoctlGetInt(int(fd), unix.SIOCINQ) })
	return err == nil && ioctl == nil && n > 0
}
