package exporter

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/internal/outage"
)

// AdminSocket is the name of the socket in the directory of a queue. The exporter
// of the queue serves the admin endpoint on it.
const AdminSocket = "admin.sock"

// maxSocketPath is what the kernel takes for the path of a socket, less its NUL.
const maxSocketPath = 107

// serveSocket answers on the admin socket until the returned function is called, which
// must be while the queue is still ours: a socket that is there belongs to a process that
// had the queue before. docket runs without the socket if it has to, as on a disk that is
// read-only when it starts, and goes on trying.
func (e *Exporter) serveSocket() (stop func()) {
	path := filepath.Join(e.config().Queue.Directory, AdminSocket)
	h := e.adminHandler(anybody)
	l, err := listenAdmin(path)
	if err == nil {
		return e.serve(l, h)
	}
	e.log.Warn("no admin socket, docket tries again: docket deadletter, queue, replay, retry and tail need admin.address with admin.tokenFile, or a stopped docket", "path", path, "error", err)
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() {
		if l := awaitSocket(ctx, path); l != nil {
			e.log.Info("admin socket is served", "path", path)
			defer e.serve(l, h)()
			<-ctx.Done()
		}
	})
	return func() {
		cancel()
		serving.Wait()
	}
}

// awaitSocket tries to make the socket until ctx is done, and returns nil then.
func awaitSocket(ctx context.Context, path string) net.Listener {
	pause := newBackoff(listenRetry)
	for {
		if wait(ctx, pause.NextBackOff()); ctx.Err() != nil {
			return nil
		}
		if l, err := listenAdmin(path); err == nil {
			return l
		}
	}
}

// listenAdmin makes a socket that only the user of this process can connect to.
func listenAdmin(path string) (net.Listener, error) {
	if len(path) > maxSocketPath {
		return nil, fmt.Errorf("the path of the socket has %d bytes, the limit is %d: choose a shorter queue.directory", len(path), maxSocketPath)
	}
	info, err := os.Lstat(path)
	if err == nil && info.Mode().Type() != fs.ModeSocket {
		return nil, errors.New("a file that is not a socket exists there: move the file elsewhere")
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
	return private.Listen(context.Background(), "unix", path)
}

// permission decides whether a request may see records and change something. When it may
// not, it answers why, and is false.
type permission func(w http.ResponseWriter, r *http.Request) bool

// anybody is for a socket whose mode decides who can connect.
func anybody(http.ResponseWriter, *http.Request) bool { return true }

// bearer permits requests that have the token in a file, which is read for each request.
// Without a file it permits none.
func (e *Exporter) bearer(file config.SecretFile) permission {
	said := new(outage.Log)
	return func(w http.ResponseWriter, r *http.Request) bool {
		if file == "" {
			http.Error(w, "records are not served here: use "+AdminSocket+" in the directory of the queue, or set admin.tokenFile", http.StatusForbidden)
			return false
		}
		token, err := file.Read()
		if err != nil {
			if said.Fails(err.Error()) { // not for each request
				e.log.Error("admin endpoint: token cannot be read", "error", err)
			}
			http.Error(w, "admin.tokenFile cannot be read: docket's log says why", http.StatusInternalServerError)
			return false
		}
		if _, news := said.Works(); news {
			e.log.Info("admin endpoint: token can be read again")
		}
		scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		// Of hashes, so that the time tells nothing of the length either.
		want, got := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(given))
		if subtle.ConstantTimeCompare(got[:], want[:]) == 1 && strings.EqualFold(scheme, "Bearer") {
			return true
		}
		w.Header().Set("WWW-Authenticate", `Bearer realm="docket"`)
		http.Error(w, "records need the token of admin.tokenFile, as Authorization: Bearer", http.StatusUnauthorized)
		return false
	}
}
