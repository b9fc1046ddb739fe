package disk

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestAdviceFitsTheError(t *testing.T) {
	dir := t.TempDir()
	for errno, want := range map[unix.Errno]string{
		unix.ENOSPC: "disk full: free space on the file system of " + dir,
		unix.EROFS:  "read-only file system: ",
		unix.EACCES: "no permission: let this user write",
		unix.EINVAL: "unsuitable file system: the file system of " + dir + " refuses a call that makes files durable",
		unix.EMFILE: "no descriptors left: raise the limit of open files",
		unix.EIO:    ": ",
	} {
		what, todo := Advice(&fs.PathError{Op: "sync", Path: dir, Err: errno}, filepath.Join(dir, "not", "made"))
		if got := strings.ReplaceAll(what+": "+todo, "/not/made", ""); !strings.HasPrefix(got, want) {
			t.Errorf("%v: got %q, want %q", errno, got, want)
		}
	}
}

// A file system whose inodes are used up has free space, and freeing more does not help.
func TestAdviceWithoutInodes(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "nr_inodes=2,size=1m"); err != nil {
		t.Skip("cannot mount: ", err)
	}
	defer unix.Unmount(dir, 0)
	if err := os.WriteFile(filepath.Join(dir, "one"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	err := os.WriteFile(filepath.Join(dir, "two"), nil, 0o600)
	if what, todo := Advice(err, dir); what != "no inodes left" || !strings.Contains(todo, "df -i") {
		t.Errorf("%v: got %q, %q", err, what, todo)
	}
}
