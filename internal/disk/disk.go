// Package disk is the one way to durable files.
package disk

import (
	"fmt"
	"io"
)

// FS is a file system: the operating system's, or in a test one that fails and forgets
// (package crashdisk).
type FS interface {
	// MkdirAll makes dir and what is missing above it, with durable names.
	MkdirAll(dir string) error
	// List returns the names of the files in dir, in any order. A link that somebody
	// has put there is among them: to open it fails, and says so.
	List(dir string) ([]string, error)
	// Create makes a new file; it fails when the name exists.
	Create(name string) (File, error)
	// Open opens an existing file for reading and writing.
	Open(name string) (File, error)
	Rename(from, to string) error
	Remove(name string) error
	// SyncDir makes the names in dir durable.
	SyncDir(dir string) error
	// Space tells how large the file system of dir is, and how much of it this
	// user may still take.
	Space(dir string) (total, free int64, err error)
	// Lock takes the lock file name for this process until the result is
	// closed. It fails with *InUseError when another process holds it.
	Lock(name string) (Lock, error)
}

// Lock is a lock file that this process holds.
type Lock interface {
	io.Closer
	// Check fails when the name of the lock no longer leads to this file: its
	// directory was removed, moved or replaced, or the file was, and another process
	// may have taken it.
	Check() error
}

// File is an open file.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Sync makes the file's data and size durable (fdatasync).
	Sync() error
	Truncate(size int64) error
	// Allocate makes the file size bytes long, on blocks that are its own, so
	// that no later write within it needs space. It fails with ErrUnsupported
	// where the file system cannot, and otherwise when there is no space.
	Allocate(size int64) error
	Size() (int64, error)
	// IsRemoved reports whether the file has no name any more: what is synced to it
	// then is gone with the process.
	IsRemoved() (bool, error)
	// Data returns the first range at or after off of bytes that were ever written; from
	// is the size of the file when there is none. What is between such ranges reads as
	// zeros, slowly. One that holds more than was written is right as well.
	Data(off int64) (from, to int64, err error)
	// Prefetch says that the bytes from off to end will be read soon, in pieces.
	Prefetch(off, end int64)
}

// InUseError says that another process holds a lock.
type InUseError struct {
	Path string
	PID  int // of that process; 0 when unknown
}

func (e *InUseError) Error() string {
	return fmt.Sprintf("%s is locked by another process (%d)", e.Path, e.PID)
}
