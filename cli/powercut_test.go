package cli

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestPowerCut is TestKill with a power cut: the queue lies on a file system that
// all at once takes no more writes and loses those that it has not synced. Then
// the journal is recovered, and docket goes on with what is left.
//
// One of the two file sinks keeps its files on the disk that is cut, the other on one
// that is not: what that has got, the queue must still have.
func TestPowerCut(t *testing.T) {
	dir := t.TempDir()
	disk := newCuttableDisk(t, dir)
	c := newCrashes(t, "power cut", dir, `apiVersion: docket.dev/v1alpha1
kind: Exporter
sources:
- name: local
  unix: {path: DIR/docket.sock}
queue: {directory: DIR/disk/queue, maxBytes: 16Mi} # many small segments
sinks:
- name: cut
  batch: {maxWait: 5ms}
  file: {directory: DIR/disk/cut, rotate: {maxBytes: 256Ki}}
- name: kept
  batch: {maxWait: 5ms}
  file: {directory: DIR/kept, rotate: {maxBytes: 256Ki}}
admin: {address: "ADMIN"}
`, filepath.Join(disk.dir, "cut"), filepath.Join(dir, "kept"))
	cuts := onceIfShort(*cuts)
	for n := range cuts {
		c.life(func(docket *exec.Cmd, l load) {
			if l == full && c.dice.IntN(4) == 0 {
				outliveDisk(c, disk, docket)
			} else {
				powerCut(c, disk, docket)
			}
		})
		disk.unmount()
		disk.mount(c.dice)
		c.checkExports()
		c.progress(n+1, cuts)
	}
	c.finish(cuts)
}

// powerCut ends docket and its disk at one moment. The order matters: of the calls
// that are under way then none may return to docket. A sync would sometimes say
// yes, because ext4, other than a machine without power, finds nothing to wait for
// in a journal that it has given up.
func powerCut(c *crashes, disk *cuttableDisk, docket *exec.Cmd) {
	cut := disk.prepareCut(c.dice)
	if err := docket.Process.Kill(); err != nil {
		c.t.Fatal(err)
	}
	cut()
	docket.Wait() // says that it was killed
}

// outliveDisk has docket live on for a moment, on a disk that answers EIO. It must
// say so, and acknowledge nothing. No line is under way when the disk goes, for
// the reason that powerCut has.
func outliveDisk(c *crashes, disk *cuttableDisk, docket *exec.Cmd) {
	c.t.Helper()
	release := c.hold(c.producers)
	before := c.acked()
	disk.prepareCut(c.dice)()
	release()
	eventually(c.t, "a docket that is not ready without a disk", func() bool { return !isReady(c.t, c.admin) })
	c.pause(100 * time.Millisecond)
	if got := c.acked(); got != before {
		c.t.Errorf("got %d lines acknowledged after the disk had gone, want none", got-before)
	}
	kill(c.t, docket)
}

// cuttableDisk is an ext4 file system in a file.
type cuttableDisk struct {
	t     *testing.T
	image string
	dir   string // where it is mounted
}

// newCuttableDisk makes and mounts a disk at dir/disk. That takes privileges and
// a loop device, which are not to be had everywhere.
func newCuttableDisk(t *testing.T, dir string) *cuttableDisk {
	t.Helper()
	d := &cuttableDisk{t: t, image: filepath.Join(dir, "disk.ext4"), dir: filepath.Join(dir, "disk")}
	writeFile(t, d.image, "")
	if err := os.Truncate(d.image, 256<<20); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(d.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	err := runCommand("mkfs.ext4", "-q", "-F", "-b", "4096", d.image)
	if err == nil {
		err = runCommand("mount", "-o", "loop", d.image, d.dir)
	}
	if err != nil && os.Getenv("CI") == "true" {
		t.Fatalf("power cut: it needs root, a loop device and ext4: %v", err)
	}
	if err != nil {
		t.Skipf("power cut: not run: it needs root, a loop device and ext4: %v", err)
	}
	t.Cleanup(func() {
		// Lazily, because after a failure docket may not have ended yet.
		if err := runCommand("umount", "-l", d.dir); err != nil {
			t.Error(err)
		}
	})
	return d
}

// What ext4 is asked to do when it shuts down, from the kernel's fs/ext4/ext4.h.
const (
	ext4Shutdown   = 0x8004587d // _IOR('X', 125, __u32)
	ext4LogFlush   = 1          // commit the journal first
	ext4NoLogFlush = 2          // stop in the midst of everything
)

// prepareCut returns what cuts the disk off, at once. Mostly the journal loses what
// it has not written, and sometimes the power goes right after it has.
func (d *cuttableDisk) prepareCut(dice *rand.Rand) (cut func()) {
	d.t.Helper()
	how := ext4NoLogFlush
	if dice.IntN(4) == 0 {
		how = ext4LogFlush
	}
	root, err := os.Open(d.dir)
	if err != nil {
		d.t.Fatal(err)
	}
	return func() {
		d.t.Helper()
		defer root.Close()
		if err := unix.IoctlSetPointerInt(int(root.Fd()), ext4Shutdown, how); err != nil {
			d.t.Fatalf("shut ext4 down: %v", err)
		}
	}
}

// mount recovers the journal. Without the order that ext4 keeps by default, a
// file may have grown before its data were written, and holds then what its
// blocks held before.
func (d *cuttableDisk) mount(dice *rand.Rand) {
	d.t.Helper()
	order := []string{"ordered", "writeback"}[dice.IntN(2)]
	if err := runCommand("mount", "-o", "loop,data="+order, d.image, d.dir); err != nil {
		d.t.Fatal(err)
	}
}

func (d *cuttableDisk) unmount() {
	d.t.Helper()
	if err := runCommand("umount", d.dir); err != nil {
		d.t.Fatal(err)
	}
}

// runCommand runs a program, whose output explains its error.
func runCommand(name string, args ...string) error {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %v: %w: %s", name, args, err, bytes.TrimSpace(out))
	}
	return nil
}
