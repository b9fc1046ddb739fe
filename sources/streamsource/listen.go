package streamsource

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/internal/disk"
)

const (
	// lockWait is how long another process may hold the directory's lock: it
	// does what listenUnix does here, which takes a millisecond, or as long as
	// the disk is stuck.
	lockWait = 10 * time.Second
	// acceptWait is how long Accept looks for producers that connected before
	// the socket retired, or longer for as long as some wait. They are in the
	// kernel already.
	acceptWait = 10 * time.Millisecond
)

// socketListener is a listener of package net.
type socketListener interface {
	net.Listener
	SetDeadline(time.Time) error
	SyscallConn() (syscall.RawConn, error)
}

// waiting reports whether a connection waits to be accepted.
func waiting(l socketListener) bool {
	raw, err := l.SyscallConn()
	if err != nil {
		return false
	}
	var n int
	var poll error
	err = raw.Control(func(fd uintptr) {
		n, poll = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	})
	return err == nil && poll == nil && n > 0
}

// openListener is a listening socket that leaves nothing to remove.
type openListener struct {
	socketListener
	left atomic.Bool // to another listener on it; see handOver
}

// Stand has nothing to make again: no file leads to the socket.
func (l *openListener) Stand(context.Context) (again bool, err error) { return false, nil }

// Retire leaves Accept only those who have connected already.
func (l *openListener) Retire() {
	if l.left.Load() {
		leave(l)
		return
	}
	// It fails only on a closed listener, and so does Accept.
	_ = l.SetDeadline(time.Now().Add(acceptWait))
}

// Waiting reports whether somebody has connected who was not accepted.
func (l *openListener) Waiting() bool { return !l.left.Load() && waiting(l.socketListener) }

// access says who may connect to a Unix socket.
type access struct {
	mode fs.FileMode
	gid  int // of its file; config.OwnGroup leaves the one that it is made with
}

// atFirst is the mode of the file before it has its group: the group that it is
// made with need not be one that may connect, and its members might be among the
// others later.
func (a access) atFirst() fs.FileMode {
	if a.gid == config.OwnGroup {
		return a.mode
	}
	return a.mode & 0o700
}

// unixListener listens on a Unix domain socket and owns its file. When somebody removes or
// replaces the file, nobody new can connect: Stand makes the socket again.
type unixListener struct {
	path   string
	access access
	from   *unixSocket // whose producers Accept lets in: one that was replaced, until nobody waits there; owned by Accept

	mu     sync.Mutex
	socket *unixSocket // guarded by mu
	ended  bool        // it has retired, or was handed over; guarded by mu
	left   bool        // to another listener on the socket; see handOver; guarded by mu
}

// unixSocket is a socket and its file.
type unixSocket struct {
	*net.UnixListener
	file fs.FileInfo // as we made it
}

// listenUnix binds a socket to path. There is no moment in which somebody may
// connect who may not later.
//
// The socket file of a dead process is replaced. That of a living one is an
// error, which says whose it is, and so is a file that is not a socket. Between
// looking and binding the directory is locked, so that of two processes that
// start at the same time one gets the socket and the other is told.
func listenUnix(ctx context.Context, path string, a access) (*unixListener, error) {
	s, err := newUnixSocket(ctx, path, a)
	if err != nil {
		return nil, err
	}
	return &unixListener{path: path, access: a, socket: s, from: s}, nil
}

func newUnixSocket(ctx context.Context, path string, a access) (*unixSocket, error) {
	unlock, err := lockDirectory(ctx, filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("socket %s: %w", path, err)
	}
	defer unlock()
	if err := clearPath(ctx, path); err != nil {
		return nil, fmt.Errorf("socket %s: %w", path, err)
	}
	ln, err := bind(ctx, path, a.atFirst())
	if err != nil {
		return nil, fmt.Errorf("socket %s: %w", path, err)
	}
	file, err := openUp(path, a)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("socket %s: %w", path, err), ln.Close(), os.Remove(path))
	}
	return &unixSocket{ln, file}, nil
}

// openUp gives the file of a socket its group, then its mode: the umask has taken
// bits away when it was made, never added any.
//
// Somebody who may write to the directory can put a link in the place of the socket
// meanwhile. So the file is opened once, without following, and only a socket is changed.
func openUp(path string, a access) (fs.FileInfo, error) {
	f, err := os.OpenFile(path, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return nil, errors.New("another file has replaced the socket: let only docket's user write to the directory")
	}
	if a.gid != config.OwnGroup {
		if err := unix.Fchownat(int(f.Fd()), "", -1, a.gid, unix.AT_EMPTY_PATH); err != nil {
			err = &fs.PathError{Op: "lchown", Path: path, Err: err}
			return nil, fmt.Errorf("set group %d: %w: make docket's user a member of the group", a.gid, err)
		}
	}
	// No system call of old changes the mode of a file that is open for its path alone.
	if err := os.Chmod(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), a.mode); err != nil {
		return nil, err
	}
	return f.Stat()
}

// Accept waits for the next connection.
func (l *unixListener) Accept() (net.Conn, error) {
	for {
		nc, err := l.from.Accept()
		now := l.current()
		switch {
		case err == nil || l.from == now:
			return nc, err
		case waiting(l.from.UnixListener): // a busy machine has let the moment pass
			_ = l.from.SetDeadline(time.Now().Add(acceptWait))
		default:
			_ = l.from.Close() // nobody is in it who could be lost
			l.from = now
		}
	}
}

func (l *unixListener) current() *unixSocket {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.socket
}

// Stand makes the socket again when its name does not lead to it any more. Producers that are
// connected stay. It reports whether it has made one.
func (l *unixListener) Stand(ctx context.Context) (again bool, err error) {
	l.mu.Lock()
	old, ended := l.socket, l.ended
	l.mu.Unlock()
	if ended || disk.CheckName(l.path, old.file) == nil {
		return false, nil
	}
	s, err := newUnixSocket(ctx, l.path, l.access)
	if err != nil {
		return false, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		l.remove(s)
		return false, s.Close()
	}
	l.socket = s
	// It fails only on a closed listener, and so does Accept.
	return true, old.SetDeadline(time.Now().Add(acceptWait))
}

// Addr is nil while nobody can connect.
func (l *unixListener) Addr() net.Addr {
	s := l.current()
	if disk.CheckName(l.path, s.file) != nil {
		return nil
	}
	return s.Addr()
}

// Retire removes the file, if it is still ours, and leaves Accept only those who
// have connected already. While the listener is open nobody else who asks before
// binding takes the path, so it needs no lock.
func (l *unixListener) Retire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	if l.left {
		leave(l.socket)
		return
	}
	l.remove(l.socket)
	// It fails only on a closed listener, and so does Accept.
	_ = l.socket.SetDeadline(time.Now().Add(acceptWait))
}

// remove removes the file of a socket, if it is still ours.
func (l *unixListener) remove(s *unixSocket) {
	if disk.CheckName(l.path, s.file) == nil {
		_ = os.Remove(l.path) // a file that stays is replaced at the next start
	}
}

// Close closes what there is.
func (l *unixListener) Close() error {
	now := l.current()
	if l.from != now {
		_ = l.from.Close()
	}
	return now.Close()
}

// Waiting reports whether somebody has connected who was not accepted.
func (l *unixListener) Waiting() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.left && waiting(l.socket.UnixListener)
}

// lockDirectory takes the lock of a directory, which leaves nothing behind.
func lockDirectory(ctx context.Context, dir string) (unlock func(), err error) {
	d, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("directory %s does not exist: create it first", dir)
	}
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	for {
		err := syscall.Flock(int(d.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { d.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			d.Close()
			return nil, fmt.Errorf("lock directory %s: %w", dir, err)
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			d.Close()
			return nil, fmt.Errorf("lock directory %s: another process holds it: %w", dir, context.Cause(ctx))
		}
	}
}

// clearPath makes way at path: it removes the socket file of a dead process.
func clearPath(ctx context.Context, path string) error {
	file, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if file.Mode().Type() != fs.ModeSocket {
		return errors.New("the path holds a file that is not a socket: remove the file or choose another path")
	}
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	nc, err := new(net.Dialer).DialContext(ctx, "unix", path)
	switch {
	case err == nil:
		defer nc.Close()
		return fmt.Errorf("in use by %s: stop it or choose another path", owner(nc))
	case errors.Is(err, syscall.ECONNREFUSED):
		if err := os.Remove(path); err != nil {
			return fmt.Errorf("remove the socket of a dead process: %w", err)
		}
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return nil
	}
	return fmt.Errorf("cannot tell whether the socket is in use: %w", err)
}

// owner names the process that listens at the other end of nc.
func owner(nc net.Conn) string {
	cred, err := credentials(nc)
	if err != nil {
		return "another process"
	}
	if cred.Pid == 0 { // it has no number here
		return "a process in another pid namespace"
	}
	return fmt.Sprintf("process %d", cred.Pid)
}

// bind makes the socket and its file. The mode of a socket before it is bound is
// the mode of the file that binding makes, less the umask: unlike a chmod
// afterwards, this leaves no moment in which the file is open to everybody.
func bind(ctx context.Context, path string, mode fs.FileMode) (*net.UnixListener, error) {
	config := net.ListenConfig{
		Control: func(_, _ string, raw syscall.RawConn) error {
			var chmod error
			if err := raw.Control(func(fd uintptr) {
				chmod = syscall.Fchmod(int(fd), uint32(mode.Perm()))
			}); err != nil {
				return err
			}
			return os.NewSyscallError("fchmod", chmod)
		},
	}
	ln, err := config.Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	socket := ln.(*net.UnixListener)
	socket.SetUnlinkOnClose(false) // by then the file may be somebody else's
	return socket, nil
}
