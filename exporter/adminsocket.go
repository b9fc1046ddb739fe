package exporter

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/internal/outage"
)

// AdminSocket is the name of the socket in the directory of a queue. The exporter
// of the queue serves the admin endpoint on it.
const AdminSocket = "admin.sock"

// maxSocketPath is what the kernel takes for the path of a socket, less its NUL.
const maxSocketPath = 107

// serveSocket answers on the admin socket until the returned function is called, which
// must be while the queue is still ours. docket runs without the socket if it has to, as on
// a disk that is read-only when it starts, and goes on trying. It makes the socket again
// when somebody has removed its file.
func (e *Exporter) serveSocket() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	tried := make(chan struct{})
	var serving sync.WaitGroup
	serving.Go(func() { e.keepSocket(ctx, sync.OnceFunc(func() { close(tried) })) })
	<-tried
	return func() {
		cancel()
		serving.Wait()
	}
}

func (e *Exporter) keepSocket(ctx context.Context, tried func()) {
	path := filepath.Join(e.config().Queue.Directory, AdminSocket)
	h := e.adminHandler(true)
	pause := newBackoff(listenRetry)
	var said outage.Log
	for ctx.Err() == nil {
		l, err := listenAdmin(path)
		if err != nil {
			if said.Fails(err.Error()) {
				e.log.Warn("no admin socket, docket tries again: docket deadletter, queue, replay, retry and tail need it, or a stopped docket", "path", path, "error", err)
			}
			tried()
			wait(ctx, pause.NextBackOff())
			continue
		}
		pause.Reset()
		if _, news := said.Works(); news {
			e.log.Info("admin socket is served", "path", path)
		}
		stop := e.serve(l, h)
		tried()
		err = l.watch(ctx)
		stop()
		l.remove()
		if ctx.Err() == nil && said.Fails("removed") {
			e.log.Warn("the admin socket was removed or replaced: docket makes it again", "path", path, "error", err)
		}
	}
}

// adminSocket is a listening socket and its file.
type adminSocket struct {
	*net.UnixListener
	path string
	file fs.FileInfo
}

// watch returns when ctx is done, or the name does not lead to the socket any more, which is
// the error.
func (s *adminSocket) watch(ctx context.Context) error {
	for {
		wait(ctx, disk.LookEvery)
		if err := disk.CheckName(s.path, s.file); err != nil || ctx.Err() != nil {
			return err
		}
	}
}

// remove removes the file, if it is still ours.
func (s *adminSocket) remove() {
	if disk.CheckName(s.path, s.file) == nil {
		_ = os.Remove(s.path) // a file that stays is replaced at the next start
	}
}

// listenAdmin makes a socket that only the user of this process can connect to.
func listenAdmin(path string) (*adminSocket, error) {
	if len(path) > maxSocketPath {
		return nil, fmt.Errorf("the path of the socket has %d bytes, the limit is %d: choose a shorter queue.directory", len(path), maxSocketPath)
	}
	info, err := os.Lstat(path)
	if err == nil && info.Mode().Type() != fs.ModeSocket {
		return nil, errors.New("a file that is not a socket exists there: move the file elsewhere")
	}
	// The directory may have been replaced by that of another queue, with a docket of its own.
	if c, err := net.Dial("unix", path); err == nil {
		return nil, errors.Join(errors.New("another docket listens there: its queue has replaced this one"), c.Close())
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("remove the socket of an earlier process: %w", err)
	}
	// The mode before binding is that of the file, less the umask. A chmod afterwards
	// would leave a moment in which others can connect.
	private := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var chmod error
		err := raw.Control(func(fd uintptr) { chmod = syscall.Fchmod(int(fd), 0o600) })
		return errors.Join(err, os.NewSyscallError("fchmod", chmod))
	}}
	ln, err := private.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, err
	}
	l := ln.(*net.UnixListener)
	l.SetUnlinkOnClose(false) // by then the file may be another's
	file, err := os.Lstat(path)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return &adminSocket{l, path, file}, nil
}
