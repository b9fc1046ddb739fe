package main

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestBanner(t *testing.T) {
	for name, test := range map[string]struct {
		data string
		want []string
	}{
		"default": {defaultDataDir, []string{"docket-data/docket.sock\n", "docket-data/export\n", "http://127.0.0.1:9464/status\n", "| docket send\n"}},
		"--data":  {"/srv/d", []string{"/srv/d/docket.sock\n", "| docket send --data /srv/d\n", "docket config --data /srv/d\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, err := loadConfig("", test.data)
			if err != nil {
				t.Fatal(err)
			}
			var b strings.Builder
			printBanner(&b, test.data, cfg)
			for _, want := range test.want {
				if !strings.Contains(b.String(), want) {
					t.Errorf("got\n%s\nwant %q in it", b.String(), want)
				}
			}
		})
	}
}

func TestNewLog(t *testing.T) {
	for name, test := range map[string]struct{ format, level, want string }{
		"json":            {"json", "info", `"msg":"two"`},
		"text":            {"text", "info", `msg=two`},
		"not a terminal":  {"", "info", `"msg":"two"`},
		"from warning on": {"json", "warn", ``},
	} {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			log := newLog(&b, test.format, test.level)
			log.Debug("one")
			log.Info("two")
			if got := b.String(); !strings.Contains(got, test.want) || strings.Contains(got, "one") || test.want == "" && got != "" {
				t.Errorf("got %q, want %q in it and nothing below level %s", got, test.want, test.level)
			}
		})
	}
}

// TestFileSystemOf: a directory that does not exist yet will be on the file
// system of the nearest one that does.
func TestFileSystemOf(t *testing.T) {
	if kind, err := fileSystemOf("/proc/no/such/directory"); err != nil || kind != unix.PROC_SUPER_MAGIC {
		t.Errorf("got %#x, %v, want that of /proc, %#x", kind, err, unix.PROC_SUPER_MAGIC)
	}
	if kind, err := fileSystemOf("\x00"); err == nil {
		t.Errorf("got %#x for a name that cannot be, want an error", kind)
	}
}

func TestLossOn(t *testing.T) {
	for name, test := range map[string]struct {
		kind int64
		want string
	}{
		"tmpfs":     {unix.TMPFS_MAGIC, "when the machine restarts"},
		"overlayfs": {unix.OVERLAYFS_SUPER_MAGIC, "lost with the container"},
		"ext4":      {unix.EXT4_SUPER_MAGIC, ""},
		"xfs":       {unix.XFS_SUPER_MAGIC, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := lossOn(test.kind); !strings.Contains(got, test.want) || (got == "") != (test.want == "") {
				t.Errorf("got %q, want %q in it", got, test.want)
			}
		})
	}
}
