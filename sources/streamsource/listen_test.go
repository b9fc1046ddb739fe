package streamsource

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/docket-export/docket/sources"
)

// childPath is the environment variable that turns this test binary into a
// process that listens there.
const childPath = "DOCKET_STREAMSOURCE_CHILD"

func runChild(path string) {
	if _, err := listenUnix(context.Background(), path, 0o660); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("listening")
	_, _ = io.Copy(io.Discard, os.Stdin) // until the test has enough of us
}

// child starts a process that listens at path.
func child(t *testing.T, path string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), childPath+"="+path)
	if _, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kill(cmd) })
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "listening\n" {
		t.Fatalf("child: got %q, %v, want listening", line, err)
	}
	return cmd
}

func kill(cmd *exec.Cmd) {
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

func listen(t *testing.T, path string) *unixListener {
	t.Helper()
	ln, err := listenUnix(context.Background(), path, 0o660)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return ln
}

// refuseListen expects that path cannot be taken, for a reason.
func refuseListen(t *testing.T, path string, want ...string) {
	t.Helper()
	ln, err := listenUnix(context.Background(), path, 0o660)
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
			ln, err := listenUnix(context.Background(), path, 0o660)
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
	if _, err := listenUnix(ctx, filepath.Join(dir, "s"), 0o660); err == nil || !strings.Contains(err.Error(), "another process holds it") {
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
				whole, err := listenUnix(context.Background(), filepath.Join(dir, "s"), mode)
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

func TestConfig(t *testing.T) {
	for name, test := range map[string]struct {
		config Config
		want   string // all problems
	}{
		"good":         {Config{Path: "/run/docket/docket.sock", Mode: "0660"}, ""},
		"relative":     {Config{Path: "./docket-data/docket.sock", Mode: "600"}, ""},
		"longest path": {Config{Path: strings.Repeat("p", 107), Mode: "0660"}, ""},
		"path missing": {Config{Mode: "0660"}, "path: is required"},
		"abstract":     {Config{Path: "@docket", Mode: "0660"}, "path: must be a file, not an abstract name"},
		"NUL":          {Config{Path: "/run/a\x00b", Mode: "0660"}, "path: must not contain a NUL byte"},
		"path too long": {Config{Path: strings.Repeat("p", 108), Mode: "0660"},
			"path: must have at most 107 bytes, not 108"},
		"mode not octal":   {Config{Path: "/s", Mode: "0689"}, `mode: must be an octal mode such as 0660, not "0689"`},
		"mode in letters":  {Config{Path: "/s", Mode: "rw"}, `mode: must be an octal mode such as 0660, not "rw"`},
		"mode empty":       {Config{Path: "/s"}, `mode: must be an octal mode such as 0660, not ""`},
		"mode with setuid": {Config{Path: "/s", Mode: "04660"}, `not "04660"`},
		"mode of no use":   {Config{Path: "/s", Mode: "0440"}, "mode: must let somebody write"},
		"two problems":     {Config{Mode: "x"}, "path: is required: the path of the socket, such as /run/docket/docket.sock\nmode: must be"},
	} {
		t.Run(name, func(t *testing.T) {
			got := test.config.Validate().Error()
			if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
				t.Errorf("problems: got %q, want %q", got, test.want)
			}
		})
	}
	if c := Definition.NewConfig().(*Config); c.Mode != "0660" || Definition.ConfigKey() != "unix" {
		t.Errorf("definition: got key %q, mode %q, want unix, 0660", Definition.ConfigKey(), c.Mode)
	}
}

func TestLongestPathIsBound(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, strings.Repeat("s", maxPath-len(dir)-1))
	listen(t, path)
}

func TestRunReportsWhyItCannotStart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	listen(t, path)
	s := (&Config{Path: path, Mode: "0660"}).New(sources.Env{Name: "test"})
	err := s.Run(context.Background(), nil, func() { t.Error("ready was called") })
	if err == nil || !strings.Contains(err.Error(), "in use by process") {
		t.Errorf("Run: got %v, want in use", err)
	}
}
