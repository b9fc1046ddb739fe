package streamsource

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/docket-export/docket/config"
)

// child starts a process that listens at path.
func child(t *testing.T, path string) *exec.Cmd {
	t.Helper()
	cmd := newChild(t, "listen", path)
	if got := cmd.start(); got != "listening" {
		t.Fatalf("child: got %q, want listening", got)
	}
	return cmd.Cmd
}

func listen(t *testing.T, path string) *unixListener {
	t.Helper()
	ln, err := listenUnix(context.Background(), path, access{mode: 0o660, gid: config.OwnGroup})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return ln
}

// refuseListen expects that path cannot be taken, for a reason.
func refuseListen(t *testing.T, path string, want ...string) {
	t.Helper()
	ln, err := listenUnix(context.Background(), path, access{mode: 0o660, gid: config.OwnGroup})
	if err == nil {
		ln.Close()
		t.Fatal("got the socket, want an error")
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error: got %q, want %q in it", err, w)
		}
	}
}

func TestSocketOfALivingProcessIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	cmd := child(t, path)
	refuseListen(t, path, path, fmt.Sprintf("in use by process %d:", cmd.Process.Pid))
	nc, err := net.Dial("unix", path)
	if err != nil {
		t.Fatalf("the living process has lost its socket: %v", err)
	}
	nc.Close()
}

func TestSocketOfADeadProcessIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	kill(child(t, path))
	if _, err := os.Lstat(path); err != nil {
		t.Fatalf("the dead process has left no socket: %v", err)
	}
	listen(t, path)
	nc, err := net.Dial("unix", path)
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	nc.Close()
}

func TestOneOfManyStartersGetsTheSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	kill(child(t, path))
	var wg sync.WaitGroup
	var mu sync.Mutex
	var got []*unixListener
	for range 16 {
		wg.Go(func() {
			ln, err := listenUnix(context.Background(), path, access{mode: 0o660, gid: config.OwnGroup})
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				got = append(got, ln)
			} else if !strings.Contains(err.Error(), fmt.Sprintf("in use by process %d", os.Getpid())) {
				t.Errorf("got %v, want in use", err)
			}
		})
	}
	wg.Wait()
	for _, ln := range got {
		ln.Close()
	}
	if len(got) != 1 {
		t.Errorf("starters that got the socket: got %d, want 1", len(got))
	}
}

func TestOtherFilesAreNotRemoved(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "s")
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	refuseListen(t, path, path, "not a socket")
	refuseListen(t, link, link, "not a socket")
	refuseListen(t, dir, dir, "not a socket")
	if text, err := os.ReadFile(path); string(text) != "precious" {
		t.Errorf("file: got %q, %v, want it untouched", text, err)
	}
}

func TestMissingDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	refuseListen(t, filepath.Join(dir, "s"), "directory "+dir+" does not exist: create it first")
}

func TestDirectoryLockedByAnother(t *testing.T) {
	dir := t.TempDir()
	unlock, err := lockDirectory(context.Background(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := listenUnix(ctx, filepath.Join(dir, "s"), access{mode: 0o660, gid: config.OwnGroup}); err == nil || !strings.Contains(err.Error(), "another process holds it") {
		t.Errorf("got %v, want an error about the lock", err)
	}
}

func TestModeOfTheSocket(t *testing.T) {
	for _, umask := range []int{0, 0o022, 0o077} {
		for _, mode := range []fs.FileMode{0o600, 0o660, 0o666, 0o620} {
			t.Run(fmt.Sprintf("umask %o mode %o", umask, mode), func(t *testing.T) {
				defer syscall.Umask(syscall.Umask(umask))
				dir := t.TempDir()
				bound := filepath.Join(dir, "b")
				ln, err := bind(context.Background(), bound, mode)
				if err != nil {
					t.Fatal(err)
				}
				defer ln.Close()
				if got, want := modeOf(t, bound), mode&^fs.FileMode(umask); got != want {
					t.Errorf("mode at first: got %o, want %o", got, want)
				}
				whole, err := listenUnix(context.Background(), filepath.Join(dir, "s"), access{mode: mode, gid: config.OwnGroup})
				if err != nil {
					t.Fatal(err)
				}
				defer whole.Close()
				if got := modeOf(t, whole.path); got != mode {
					t.Errorf("mode at last: got %o, want %o", got, mode)
				}
			})
		}
	}
}

func modeOf(t *testing.T, path string) fs.FileMode {
	t.Helper()
	file, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return file.Mode().Perm()
}

func TestRetireRemovesOnlyItsOwnSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	first := listen(t, path)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	second := listen(t, path)
	first.Retire()
	if _, err := os.Lstat(path); err != nil {
		t.Fatalf("the socket of the second is gone: %v", err)
	}
	second.Retire()
	if _, err := os.Lstat(path); err == nil {
		t.Error("the socket is still there after its owner has retired")
	}
}
