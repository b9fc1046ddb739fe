package client

import "syscall"

// tcpUserTimeout is TCP_USER_TIMEOUT of RFC 5482 in linux/tcp.h, which package
// syscall does not have.
const tcpUserTimeout = 18

// vanished is how long, in milliseconds, an exporter may leave what it was sent
// unanswered by its kernel. Without it a connection to a machine that is gone ends
// only after a quarter of an hour. One that stops reading because its queue is
// full is cut off as well, and connected to again.
const vanished = 60_000

// noticeVanished is a net.Dialer.Control.
func noticeVanished(_, _ string, raw syscall.RawConn) error {
	var err error
	if controlErr := raw.Control(func(fd uintptr) {
		err = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, vanished)
	}); controlErr != nil {
		return controlErr
	}
	return err
}
