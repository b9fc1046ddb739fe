package streamsource

import (
	"net"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// From here on a larger read no longer makes the reading cheaper.
const readBuffer = 256 << 10

// memory is what a lineReader takes beyond its first buffer. See budget.Holder, but for
// Take, which knows by itself until when to wait.
type memory interface {
	Try(n int) bool
	Take(n int) error
	Give(n int)
	Await(peer bool)
	Renew()
}

// buffers keeps large buffers that connections have read into for the next. Those that
// are not in use are left to the garbage collector. Safe for concurrent use; the zero
// value is ready.
type buffers struct{ free sync.Pool } // of *[readBuffer]byte

// lend returns a buffer of readBuffer bytes.
func (b *buffers) lend() []byte {
	if buf, ok := b.free.Get().(*[readBuffer]byte); ok {
		return buf[:]
	}
	return make([]byte, readBuffer)
}

// giveBack takes a buffer that lend returned, and that nothing refers to any more.
func (b *buffers) giveBack(buf []byte) { b.free.Put((*[readBuffer]byte)(buf)) }

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
