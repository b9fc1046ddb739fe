//go:build !linux

package client

import "syscall"

// noticeVanished is a net.Dialer.Control. Here the kernel decides how long a
// machine may be gone before its connections end.
func noticeVanished(_, _ string, _ syscall.RawConn) error { return nil }
