//go:build !linux

package proc

import "syscall"

// dieWithParent does nothing: only Linux ties a child to its parent. A test that
// is killed leaves its children behind here.
func dieWithParent(*syscall.SysProcAttr) {}
