package hostcheck

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/exporter"
)

// TestFileSystemOf: a directory that does not exist yet will be on the file
// system of the nearest one that does.
func TestFileSystemOf(t *testing.T) {
	if stat, err := fileSystemOf("/proc/no/such/directory"); err != nil || stat.Type != unix.PROC_SUPER_MAGIC {
		t.Errorf("got %#x, %v, want that of /proc, %#x", stat.Type, err, unix.PROC_SUPER_MAGIC)
	}
	if stat, err := fileSystemOf("\x00"); err == nil {
		t.Errorf("got %#x for a name that cannot be, want an error", stat.Type)
	}
}

// TestSpaceWarning: what the queue has on disk already it need not find free.
func TestSpaceWarning(t *testing.T) {
	const gib = 1 << 30
	for name, test := range map[string]struct {
		max, own int64
		minFree  exporter.FreeBytes
		space    space
		want     string // in the warning; empty: there is none
	}{
		"enough":                        {max: 2 * gib, minFree: exporter.Auto, space: space{total: 10 * gib, free: 3 * gib}},
		"enough with what it has":       {max: 2 * gib, own: 1 * gib, minFree: 0, space: space{total: 2 * gib, free: 1 * gib}},
		"to the byte":                   {max: 2 * gib, minFree: 1 * gib, space: space{total: 3 * gib, free: 3 * gib}},
		"one byte short":                {max: 2 * gib, minFree: 1 * gib, space: space{total: 3 * gib, free: 3*gib - 1}, want: "it has 2 GiB, with 1 GiB"},
		"others have it":                {max: 2 * gib, minFree: 0, space: space{total: 10 * gib, free: 1 * gib}, want: "2Gi does not fit on the file system of /q: it has 1 GiB"},
		"the reserve, of a large one":   {max: 2 * gib, minFree: exporter.Auto, space: space{total: 2 * gib, free: 2 * gib}, want: "with 64 MiB left free (queue.minFreeBytes)"},
		"the reserve, of a small one":   {max: 100 << 20, minFree: exporter.Auto, space: space{total: 100 << 20, free: 100 << 20}, want: "with 5 MiB left free"},
		"less than the reserve":         {max: 16 << 20, minFree: 64 << 20, space: space{total: 100 << 20, free: 10 << 20}, want: "it has 0 B"},
		"one that tells no size at all": {max: 2 * gib, minFree: exporter.Auto},
	} {
		t.Run(name, func(t *testing.T) {
			q := exporter.QueueConfig{Directory: "/q", MaxBytes: config.Size(test.max), MinFreeBytes: test.minFree}
			got := spaceWarning(q, test.space, test.own)
			if !strings.Contains(got, test.want) || (got == "") != (test.want == "") {
				t.Errorf("got %q, want %q in it", got, test.want)
			}
		})
	}
}

func TestBytesIn(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "refused"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "segment"), []byte("12345"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "refused", "lines"), []byte("123"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, want := bytesIn(dir), int64(8); got != want {
		t.Errorf("got %d bytes, want %d", got, want)
	}
	if got := bytesIn(filepath.Join(dir, "missing")); got != 0 {
		t.Errorf("got %d bytes in a directory that is not there, want 0", got)
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
