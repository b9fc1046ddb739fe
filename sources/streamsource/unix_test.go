package streamsource

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

func TestUnixConfig(t *testing.T) {
	good := UnixConfig{Path: "/run/docket/docket.sock", Mode: "0660", MaxConnections: 1}
	for name, test := range map[string]struct {
		change func(*UnixConfig)
		want   string // how the problems begin
	}{
		"good":             {func(*UnixConfig) {}, ""},
		"relative":         {func(c *UnixConfig) { c.Path, c.Mode = "./docket-data/docket.sock", "600" }, ""},
		"longest path":     {func(c *UnixConfig) { c.Path = strings.Repeat("p", 107) }, ""},
		"group, users":     {func(c *UnixConfig) { c.Group, c.AllowUIDs = "policy", []uint32{0, 65534} }, ""},
		"path missing":     {func(c *UnixConfig) { c.Path = "" }, "path: is required"},
		"abstract":         {func(c *UnixConfig) { c.Path = "@docket" }, "path: must be a file, not an abstract name: an abstract socket has no mode"},
		"NUL":              {func(c *UnixConfig) { c.Path = "/run/a\x00b" }, "path: must not contain a NUL byte"},
		"abstract by NUL":  {func(c *UnixConfig) { c.Path = "\x00docket" }, "path: must not contain a NUL byte"},
		"path too long":    {func(c *UnixConfig) { c.Path = strings.Repeat("p", 108) }, "path: must have at most 107 bytes, not 108"},
		"mode not octal":   {func(c *UnixConfig) { c.Mode = "0689" }, `mode: must be an octal mode such as 0660, not "0689"`},
		"mode in letters":  {func(c *UnixConfig) { c.Mode = "rw" }, `mode: must be an octal mode such as 0660, not "rw"`},
		"mode empty":       {func(c *UnixConfig) { c.Mode = "" }, `mode: must be an octal mode such as 0660`},
		"mode with setuid": {func(c *UnixConfig) { c.Mode = "04660" }, `mode: must be an octal mode such as 0660, not "04660"`},
		"mode of no use":   {func(c *UnixConfig) { c.Mode = "0440" }, "mode: must let the owner write"},
		"no connections":   {func(c *UnixConfig) { c.MaxConnections = 0 }, "maxConnections: must be at least 1"},
		"two problems":     {func(c *UnixConfig) { c.Path, c.Mode = "", "x" }, "path: is required: the path of the socket, such as /run/docket/docket.sock\nmode: must be"},
	} {
		t.Run(name, func(t *testing.T) {
			c := good
			test.change(&c)
			got := c.Validate().Error()
			if (got == "") != (test.want == "") || !strings.HasPrefix(got, test.want) {
				t.Errorf("problems: got %q, want %q", got, test.want)
			}
		})
	}
	if c := UnixDefinition.NewConfig().(*UnixConfig); c.Mode != "0660" || c.MaxConnections != 256 || UnixDefinition.ConfigKey() != "unix" {
		t.Errorf("definition: got key %q, %+v, want unix, 0660, 256", UnixDefinition.ConfigKey(), c)
	}
}

// otherGroup is a group that this process may give a file to, and not the one that
// its files have by themselves.
func otherGroup(t *testing.T) int {
	t.Helper()
	if os.Getuid() == 0 {
		return 54321
	}
	groups, err := os.Getgroups()
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range groups {
		if g != os.Getegid() {
			return g
		}
	}
	return os.Getegid() // there is no other: the mode alone can be seen
}

// groupAndMode of a file; ok is false while there is none.
func groupAndMode(path string) (gid int, mode fs.FileMode, ok bool) {
	file, err := os.Lstat(path)
	if err != nil {
		return 0, 0, false
	}
	return int(file.Sys().(*syscall.Stat_t).Gid), file.Mode().Perm(), true
}

func TestGroupOfTheSocket(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	gid, path := otherGroup(t), filepath.Join(t.TempDir(), "s")
	seen := make(map[string]bool)
	var watching sync.WaitGroup
	stop := make(chan struct{})
	watching.Go(func() { // what somebody could see who waits for his moment
		for {
			select {
			case <-stop:
				return
			default:
			}
			// The kernel reads the two one after the other: what was never there
			// is not seen twice.
			got, mode, ok := groupAndMode(path)
			again, modeAgain, okAgain := groupAndMode(path)
			if ok && okAgain && got == again && mode == modeAgain {
				seen[fmt.Sprintf("%d %o", got, mode)] = true
			}
		}
	})
	for range 200 {
		ln, err := listenUnix(context.Background(), path, access{mode: 0o662, gid: gid})
		if err != nil {
			t.Fatal(err)
		}
		if got, mode, _ := groupAndMode(path); got != gid || mode != 0o662 {
			t.Fatalf("socket: got group %d, mode %o, want %d, 662", got, mode, gid)
		}
		ln.Retire()
		ln.Close()
	}
	close(stop)
	watching.Wait()
	for state := range seen {
		var got int
		var mode fs.FileMode
		if _, err := fmt.Sscanf(state, "%d %o", &got, &mode); err != nil {
			t.Fatal(err)
		}
		if mode != 0o600 && (mode != 0o662 || got != gid) {
			t.Errorf("at some moment: got group %d, mode %o, want mode 600 until it has group %d", got, mode, gid)
		}
	}
}

// A process that is no member of the group is told so, and leaves nothing behind.
func TestGroupOfOthers(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil { // for the child; its parent stays closed
		t.Fatal(err)
	}
	uid := os.Getuid()
	if uid == 0 {
		uid = 65534
	}
	c := newChild(t, "listenFor", fmt.Sprint(uid), "s", "0")
	c.Dir = dir
	want := "socket s: set group 0: lchown s: operation not permitted: make docket's user a member of the group"
	if got := c.start(); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if _, err := os.Lstat(filepath.Join(dir, "s")); err == nil {
		t.Error("the socket is still there, want none")
	}
}

func TestAllowUIDs(t *testing.T) {
	me := uint32(os.Getuid())
	t.Run("mine", func(t *testing.T) {
		r := start(t, testLimit, func(c *UnixConfig) { c.AllowUIDs = []uint32{me + 1, me} })
		r.hello("p", 1, 0)
	})
	t.Run("not mine", func(t *testing.T) {
		r := start(t, testLimit, func(c *UnixConfig) { c.AllowUIDs = []uint32{me + 1} })
		for range 50 {
			p := r.dial()
			p.expectClosing(fmt.Sprintf("user %d may not send: it is not in allowUIDs", me))
		}
		want := fmt.Sprintf(`level=WARN msg="closed a connection" reason="user %d may not send: it is not in allowUIDs" peer="user %d, process %d"`, me, me, os.Getpid())
		r.awaitLog(1, want)
		if got := strings.Count(r.log.String(), "\n"); got != 1 {
			t.Errorf("log: got %d lines, want 1:\n%s", got, r.log)
		}
		r.awaitTexts()
	})
}

// With a process of another user, where the test may start one: it takes no place
// from those who may send.
func TestAllowUIDsOfAnother(t *testing.T) {
	me, other := uint32(os.Getuid()), uint32(os.Getuid())
	allowed := me + 1 // so that this process is the one that is turned away
	if me == 0 {
		other, allowed = 65534, 65534
	}
	r := start(t, testLimit, func(c *UnixConfig) { c.AllowUIDs, c.MaxConnections, c.Mode = []uint32{allowed}, 1, "0666" })
	for range 20 {
		r.dial().expectClosing(fmt.Sprintf("user %d may not send", me))
	}
	c := newChild(t, "connect", fmt.Sprint(other), "s")
	c.Dir = filepath.Dir(r.path)
	want := `{"docket":{"version":1,"acked":0}}`
	if other != allowed {
		want = fmt.Sprintf(`{"docket":{"version":1,"error":"user %d may not send: it is not in allowUIDs"}}`, other)
	}
	if got := c.start(); got != want {
		t.Errorf("answer to user %d: got %s, want %s", other, got, want)
	}
}
