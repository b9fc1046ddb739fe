package client

import (
	"net"
	"syscall"
	"testing"
)

// A machine that is gone is noticed: the kernel is told how long to wait for it.
func TestTCPConnectionsNoticeAVanishedPeer(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	dial, err := (&Config{Address: "tcp://" + ln.Addr().String()}).dial()
	if err != nil {
		t.Fatal(err)
	}
	nc, err := dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	raw, err := nc.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var got int
	var optErr error
	if err := raw.Control(func(fd uintptr) {
		got, optErr = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout)
	}); err != nil || optErr != nil {
		t.Fatal(err, optErr)
	}
	if got != vanished {
		t.Errorf("TCP_USER_TIMEOUT: got %d ms, want %d", got, vanished)
	}
}
