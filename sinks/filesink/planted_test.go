package filesink

import (
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/sinks"
	"github.com/docket-export/docket/sinks/filesink/manifest"
)

// otherGroup is a group that this process may give a file to, and not the one that its
// files have.
func otherGroup(t *testing.T) int {
	t.Helper()
	if os.Geteuid() == 0 {
		return 4321
	}
	groups, err := os.Getgroups()
	if err != nil {
		t.Fatal(err)
	}
	for _, gid := range groups {
		if gid != os.Getegid() {
			return gid
		}
	}
	return os.Getegid() // then the group tells nothing, and the modes do
}

// TestAccess wants all of an export to have the mode and the group of the configuration,
// whatever the umask and whatever they were before.
func TestAccess(t *testing.T) {
	gid := otherGroup(t)
	umask := unix.Umask(0o077)
	t.Cleanup(func() { unix.Umask(umask) })
	c := rotating(filepath.Join(t.TempDir(), "export"), 1)
	c.Compress = Zstd
	write := func(from uint64) {
		s := mustOpen(t, c, nil)
		for seq := from; seq < from+3; seq++ {
			mustSend(t, s, batch(queueA, seq, seq))
		}
		mustClose(t, s)
	}
	check := func(when string, old map[string]bool, mode, directory fs.FileMode, wantGroup int) (seen map[string]bool) {
		t.Helper()
		seen = map[string]bool{}
		err := filepath.WalkDir(c.Directory, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			seen[path] = true
			if old[path] && manifest.IsFinished(d.Name()) || old[path] && d.IsDir() && path != c.Directory {
				return nil // finished before
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			want := mode
			if d.IsDir() {
				want = directory
			}
			if got := info.Mode().Perm(); got != want {
				t.Errorf("%s: %s has mode %o, want %o", when, path, got, want)
			}
			if got := int(info.Sys().(*syscall.Stat_t).Gid); got != wantGroup {
				t.Errorf("%s: %s has group %d, want %d", when, path, got, wantGroup)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return seen
	}
	write(1)
	old := check("default", nil, 0o600, 0o700, os.Getegid())
	if len(old) < 7 {
		t.Fatalf("got %v, want all kinds of files", old)
	}
	c.Mode, c.DirectoryMode, c.Group = "0640", "0750", config.Group(strconv.Itoa(gid))
	write(4)
	check("set", old, 0o640, 0o750, gid)
	c.Directory += "-new"
	write(1)
	check("new", nil, 0o640, 0o750, gid)
}

func TestAccessConfig(t *testing.T) {
	for want, edit := range map[string]func(*Config){
		"":                                   func(c *Config) { c.Mode, c.DirectoryMode, c.Group = "0640", "2750"[1:], "1000" },
		"mode: must be an octal mode":        func(c *Config) { c.Mode = "0888" },
		"mode: must let its owner":           func(c *Config) { c.Mode = "0440" },
		"mode: must not let everybody write": func(c *Config) { c.Mode = "0666" },
		"directoryMode: must let its owner":  func(c *Config) { c.DirectoryMode = "0640" },
	} {
		c := rotating("x", 0)
		edit(&c)
		got := c.Validate()
		if want == "" && len(got) == 0 {
			continue
		}
		if len(got) != 1 || !strings.HasPrefix(got[0].String(), want) {
			t.Errorf("got %v, want %q", got, want)
		}
	}
	c := rotating(t.TempDir(), 0)
	c.Group = "no such group"
	_, err := open(c, env(), nil)
	checkFailure(t, err, sinks.Misconfigured, "no such group", "give the group's number")
}

// TestPlanted puts links, pipes and hard links in the place of each of the sink's files:
// they are never followed, and either refused by name or replaced.
func TestPlanted(t *testing.T) {
	for name, replaced := range map[string]bool{
		lockName: false, positionName: false, "manifest.jsonl": false, activePrefix: false,
		newPositionName: true, newManifestName: true,
	} {
		for kind, plant := range map[string]func(target, path string) error{
			"link":      os.Symlink,
			"hard link": os.Link,
			"pipe":      func(_, path string) error { return unix.Mkfifo(path, 0o600) },
		} {
			for when, sent := range map[string]bool{"new": false, "in use": true} {
				t.Run(name+"/"+kind+"/"+when, func(t *testing.T) {
					dir, victim := t.TempDir(), filepath.Join(t.TempDir(), "victim")
					if err := os.WriteFile(victim, []byte("precious\n"), 0o600); err != nil {
						t.Fatal(err)
					}
					c := rotating(dir, 1)
					c.Mode = "0644"
					if sent {
						s := mustOpen(t, c, nil)
						mustSend(t, s, batch(queueA, 1, 1))
						mustSend(t, s, batch(queueA, 2, 2))
						mustClose(t, s)
					}
					if err := os.Remove(filepath.Join(dir, name)); sent && !replaced && err != nil {
						t.Fatal(err)
					}
					if err := plant(victim, filepath.Join(dir, name)); err != nil {
						t.Fatal(err)
					}
					s, err := open(c, env(), nil)
					if err == nil {
						t.Cleanup(func() { mustClose(t, s) })
						err = s.Send(t.Context(), batch(queueA, 3, 3))
					}
					if err != nil && sinks.FailureOf(err).Kind != sinks.Misconfigured {
						t.Errorf("got %v, want that an operator must act", err)
					}
					if err != nil && !strings.Contains(err.Error(), filepath.Join(dir, name)) {
						t.Errorf("got %v, want that it names the file", err)
					}
					if err != nil && replaced {
						t.Errorf("got %v, want that it is replaced", err)
					}
					content, readErr := os.ReadFile(victim)
					info, statErr := os.Stat(victim)
					if readErr != nil || statErr != nil || string(content) != "precious\n" || info.Mode().Perm() != 0o600 {
						t.Errorf("the victim holds %q, %v, with mode %v: want it as it was", content, readErr, info.Mode())
					}
				})
			}
		}
	}
}
