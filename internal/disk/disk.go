// Package disk is docket's one way to durable files: a few verbs over a file system,
// which in a test is one that fails and forgets (package crashdisk).
//
// A verb that returns nil has made durable what its comment says. After a failed sync
// nothing that was written before counts as durable, even if a later sync of the same file
// succeeds: the kernel has marked the pages clean. So no verb syncs such a file again. See
// https://wiki.postgresql.org/wiki/Fsync_Errors and Rebello et al., "Can Applications
// Recover from fsync Failures?", USENIX ATC 2020.
//
// A Path has two parts. The root is a directory that the operator has named. Everything
// below it is docket's own, and no link is followed there: see package rooted. Only the
// owner can read files (0600) and directories (0700), unless Access says otherwise.
//
// # System calls
//
// Every call opens the directories on the way first (openat with O_PATH, O_NOFOLLOW below
// the root). These calls follow, in this order; TestSystemCalls traces them. MakeDir is
// shown for a directory "made" right below the root "dir".
//
//	MakeDir   mkdirat(dir) fsync(dir/..) mkdirat(made) fsync(dir)
//	Create    openat(file)
//	Replace   unlinkat(file.new) openat(file.new) pwrite64(file.new) fdatasync(file.new) renameat(file.new) fsync(dir)
//	WriteNew  openat(file) pwrite64(file) fdatasync(file) fsync(dir)
//	Append    pwrite64(file) fdatasync(file)
//	Lock      openat(file) flock(file) ftruncate(file) pwrite64(file)
//	Share     flock(file)
package disk

// BUG(disk): a failed sync leaves its pages in memory. A process that starts later reads them as
// if they were durable. The queue, the file sink and the known records therefore write
// what they have read to a new file before they rely on it; the others do not.

// BUG(disk): the directory above a root that exists may be one that docket cannot read, or
// the disk may be full or failing: a process must start all the same. So a sync of it that
// fails is no failure. A root that docket has made itself is lost if it was killed before
// the sync, the sync of the next process fails, and then the power does.

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"

	"github.com/docket-export/docket/internal/rooted"
)

// FS is a file system. Names are paths as the operating system writes them.
type FS interface {
	// Mkdir makes a directory, or fails with fs.ErrExist when it exists.
	Mkdir(dir string) error
	// List returns the names of the files in dir, in any order. Links are listed too: they
	// fail to open, with an error that names them.
	List(dir string) ([]string, error)
	// Dirs returns the names of the directories in dir, in any order.
	Dirs(dir string) ([]string, error)
	// Create makes a new file, open for reading and writing; it fails when the name exists.
	Create(name string) (File, error)
	// Open opens an existing file for reading and writing, or for reading where writing is
	// not allowed.
	Open(name string) (File, error)
	// OpenWrite opens an existing file for reading and writing.
	OpenWrite(name string) (File, error)
	// OpenRead opens an existing file for reading.
	OpenRead(name string) (File, error)
	// Size returns the size of the file with this name. It does not follow a link.
	Size(name string) (int64, error)
	// Rename replaces a file that has the name to.
	Rename(from, to string) error
	// Remove removes a file, or a link itself.
	Remove(name string) error
	// RemoveDir removes an empty directory.
	RemoveDir(dir string) error
	// SyncDir makes the names in dir durable.
	SyncDir(dir string) error
	// Space returns the size of the file system of dir, and how much of it this user may
	// still use.
	Space(dir string) (total, free int64, err error)
	// Lock locks the file name for this process until the result is closed. It fails with
	// *InUseError when another process holds the lock. It waits some seconds for processes
	// that share the lock.
	Lock(name string) (Lock, error)
	// Share makes Lock wait, for the length of one read, until the result is closed. It
	// creates no file, and fails with *InUseError while a process holds the lock.
	Share(name string) (io.Closer, error)
}

// Lock is a lock file that this process holds.
type Lock interface {
	io.Closer
	// Check fails when the name no longer leads to this file: its directory or the file was
	// removed, moved or replaced, and another process may have locked the new one.
	Check() error
}

// File is an open file.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Check fails when the name no longer leads to this file.
	Check() error
	// Sync makes the file's data and size durable (fdatasync).
	Sync() error
	Truncate(size int64) error
	// Allocate makes the file size bytes long, on blocks of its own, so that no later write
	// within it needs space. It fails with ErrUnsupported where the file system cannot, and
	// otherwise when there is no space.
	Allocate(size int64) error
	Size() (int64, error)
	// IsRemoved reports whether the file has no name any more: what is synced to it
	// is lost with the process.
	IsRemoved() (bool, error)
	// Data returns the first range at or after off of bytes that were ever written; from
	// is the size of the file when there is none. The gaps between such ranges read as
	// zeros, slowly. A range may include more than was written.
	Data(off int64) (from, to int64, err error)
	// Prefetch says that the bytes from off to end will be read soon, in pieces.
	Prefetch(off, end int64)
}

// InUseError says that another process holds a lock.
type InUseError struct {
	Path   string
	Holder Holder
}

func (e *InUseError) Error() string {
	return fmt.Sprintf("%s is locked by %s", e.Path, e.Holder)
}

// Path is a file or directory below a root.
type Path struct {
	fs FS
	at rooted.Path
}

// At returns a directory of the operating system that the operator has named.
func At(root string) Path { return On(OS(root), root) }

// On is At on another file system.
func On(fsys FS, root string) Path { return Path{fsys, rooted.At(root)} }

// Join returns the path of something below p. Elements cannot lead above the root.
func (p Path) Join(elements ...string) Path { return Path{p.fs, p.at.Join(elements...)} }

// Append returns the path with suffix added to its name.
func (p Path) Append(suffix string) Path { return Path{p.fs, p.at.Append(suffix)} }

// Dir returns the directory that holds p. The directory above a root belongs to the operator
// too.
func (p Path) Dir() Path { return Path{p.fs, p.at.Dir()} }

// Base is the last component.
func (p Path) Base() string { return p.at.Base() }

// String returns the whole path, with the root.
func (p Path) String() string { return p.at.String() }

// Rooted returns the path for operations that only the file system of the operating system
// has.
func (p Path) Rooted() rooted.Path { return p.at }

// Mkdir makes a directory in an existing one. On nil its name is durable, even if the
// directory existed: the process that made it may have been killed before its sync.
func (p Path) Mkdir() error {
	_, err := p.mkdir()
	return err
}

func (p Path) mkdir() (existed bool, err error) {
	err = p.fs.Mkdir(p.String())
	if existed = errors.Is(err, fs.ErrExist); err != nil && !existed {
		return false, err
	}
	if err = p.Dir().SyncDir(); err != nil && !existed {
		_ = p.RemoveDir() // so that the next call syncs it
	}
	return existed, err
}

// MakeDir makes a directory as Mkdir does, and the directories above it.
func (p Path) MakeDir() error {
	if !p.at.IsRoot() {
		if err := p.Dir().MakeDir(); err != nil {
			return err
		}
		return p.Mkdir()
	}
	existed, err := p.mkdir()
	if errors.Is(err, fs.ErrNotExist) && !existed && p.Dir() != p {
		if err := p.Dir().MakeDir(); err != nil {
			return err
		}
		existed, err = p.mkdir()
	}
	if existed {
		return nil // the operator's: see BUG
	}
	return err
}

// Create makes a new file. It fails when the name exists. Neither content nor name is
// durable yet.
func (p Path) Create() (File, error) { return p.fs.Create(p.String()) }

// CreateAnew makes a new file. It first removes a file or a link that has the name.
func (p Path) CreateAnew() (File, error) {
	if err := p.RemoveAny(); err != nil {
		return nil, err
	}
	return p.Create()
}

// OpenRead opens a file for reading.
func (p Path) OpenRead() (File, error) { return p.fs.OpenRead(p.String()) }

// OpenWrite opens a file for reading and writing.
func (p Path) OpenWrite() (File, error) { return p.fs.OpenWrite(p.String()) }

// Lock locks a file for this process.
func (p Path) Lock() (Lock, error) { return p.fs.Lock(p.String()) }

// Share makes Lock of the file wait, until the result is closed.
func (p Path) Share() (io.Closer, error) { return p.fs.Share(p.String()) }

// Read returns at most the first limit bytes of a file.
func (p Path) Read(limit int64) ([]byte, error) {
	f, err := p.OpenRead()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.NewSectionReader(f, 0, limit))
}

// Size returns the size of the file, or -1 if it is missing.
func (p Path) Size() (int64, error) {
	size, err := p.fs.Size(p.String())
	if errors.Is(err, fs.ErrNotExist) {
		return -1, nil
	}
	return size, err
}

// Exists reports whether something has the name.
func (p Path) Exists() (bool, error) {
	size, err := p.Size()
	return size >= 0 && err == nil, err
}

// List returns the names of the files in a directory, sorted.
func (p Path) List() ([]string, error) {
	names, err := p.fs.List(p.String())
	slices.Sort(names)
	return names, err
}

// Dirs returns the names of the directories in a directory, sorted.
func (p Path) Dirs() ([]string, error) {
	names, err := p.fs.Dirs(p.String())
	slices.Sort(names)
	return names, err
}

// Rename renames p to to, and replaces a file of that name.
func (p Path) Rename(to Path) error { return p.fs.Rename(p.String(), to.String()) }

// Remove removes a file, or a link itself.
func (p Path) Remove() error { return p.fs.Remove(p.String()) }

// RemoveDir removes an empty directory.
func (p Path) RemoveDir() error { return p.fs.RemoveDir(p.String()) }

// RemoveAny is Remove, and succeeds if there is nothing to remove.
func (p Path) RemoveAny() error {
	if err := p.Remove(); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// SyncDir makes the names in a directory durable.
func (p Path) SyncDir() error { return p.fs.SyncDir(p.String()) }

// NewSuffix ends the name of a file that Replace has not finished. After a crash such a file
// has no meaning.
const NewSuffix = ".new"

// Replace replaces the file with one that has this content: see ReplaceBy.
func (p Path) Replace(content []byte) error {
	return p.ReplaceBy(func(f File) error { return write(f, content) })
}

// ReplaceBy replaces the file with one that fill writes. Content and name are durable on
// nil. After an error the file is the old one, or the new one with a name that is not
// durable. Calls for one path must not overlap.
func (p Path) ReplaceBy(fill func(File) error) error {
	temporary := p.Append(NewSuffix)
	f, err := temporary.CreateAnew()
	if err != nil {
		return err
	}
	if err = fill(f); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = temporary.Rename(p)
	}
	if err == nil {
		err = p.Dir().SyncDir()
	}
	if err != nil {
		_ = temporary.Remove() // half a file must not hold space that is short
	}
	return err
}

// WriteNew makes a durable file with this content: see WriteNewBy.
func (p Path) WriteNew(content []byte) error {
	return p.WriteNewBy(func(f File) error { return write(f, content) })
}

// WriteNewBy makes a durable file that fill writes. The name must be free. After an error
// there is no file, unless its removal failed too.
func (p Path) WriteNewBy(fill func(File) error) error {
	f, err := p.Create()
	if err != nil {
		return err
	}
	if err = fill(f); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = p.Dir().SyncDir()
	}
	if err != nil {
		return errors.Join(err, p.Remove())
	}
	return nil
}

func write(f File, p []byte) error {
	_, err := f.WriteAt(p, 0)
	return err
}

// Reader reads a file from its beginning.
func Reader(f File) io.Reader { return io.NewSectionReader(f, 0, math.MaxInt64) }

// Log is a file that grows by pieces. A piece is durable or, after an error, gone. A crash
// may leave part of a piece at the end of the file. The code that opens the file must find
// the end of the last whole piece.
type Log struct {
	File
	End    int64 // of the last whole piece
	failed error // of the last sync: the file takes nothing any more
}

// Append adds p at the end and makes it durable.
func (l *Log) Append(p []byte) error {
	if l.failed != nil {
		return l.failed
	}
	_, err := l.WriteAt(p, l.End)
	if err == nil {
		if err = l.Sync(); err == nil {
			l.End += int64(len(p))
			return nil
		}
		l.failed = err
	}
	if cut := l.Truncate(l.End); cut != nil {
		l.failed = errors.Join(err, cut)
	}
	return err
}

// IsBroken reports whether the file accepts no more pieces.
func (l *Log) IsBroken() bool { return l.failed != nil }
