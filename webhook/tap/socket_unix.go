//go:build linux || darwin

package tap

import (
	"net"
	"syscall"
)

// hasInput reports whether nc has something to read, or its end, without reading it. On
// an idle connection either means that the engine has closed it. Another goroutine may
// be reading.
func hasInput(nc net.Conn) (yes bool) {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return false
	}
	err = raw.Control(func(fd uintptr) {
		_, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		yes = err != syscall.EAGAIN && err != syscall.EINTR
	})
	return yes && err == nil
}
