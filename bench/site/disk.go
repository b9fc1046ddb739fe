package site

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Scratch makes an empty directory below dir, and lets the disk come to rest: what an
// earlier measurement has left to write must not be paid by this one.
func Scratch(dir string) (scratch string, remove func(), err error) {
	if scratch, err = os.MkdirTemp(dir, ""); err != nil {
		return "", nil, err
	}
	if err := Rest(scratch); err != nil {
		return "", nil, err
	}
	return scratch, func() { _ = os.RemoveAll(scratch) }, nil // Close tries again and reports
}

// Rest returns when the disk that dir is on has nothing left to write.
func Rest(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := unix.Syncfs(int(d.Fd())); err != nil {
		return fmt.Errorf("syncfs: %w", err)
	}
	return nil
}

// Warm writes so many bytes in dir, and forgets them. Memory that a virtual machine has
// never used costs several times as much on first use, and without this the first
// program that is measured would pay for it and leave it to the next: as much as a
// microsecond a record.
func Warm(dir string, size int) error {
	f, err := os.CreateTemp(dir, "")
	if err != nil {
		return err
	}
	defer f.Close()
	piece := make([]byte, 1<<20)
	for written := 0; written < size; written += len(piece) {
		if _, err := f.Write(piece); err != nil {
			return err
		}
	}
	return os.Remove(f.Name())
}
