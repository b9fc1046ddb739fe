package proc

import "syscall"

// dieWithParent makes the system kill the child when the thread that starts it
// ends.
func dieWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }
