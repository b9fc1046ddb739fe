// Package statefile keeps what a source must know after a restart: one JSON document
// in a file that is replaced as a whole.
package statefile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// MaxBytes bounds what Load reads: a longer file is none that Save wrote.
const MaxBytes = 256 << 20

// Save replaces the file at path by the JSON of v, making its directory (0700) where it
// is missing. On nil the new content is durable; on an error the file holds what it held
// before, or v. The file is readable by its owner alone. Calls for one path must not
// overlap.
func Save(path string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("state %s: %w", path, err)
	}
	dir := filepath.Dir(path)
	if err := MakeDir(dir); err != nil {
		return fmt.Errorf("state: %w", err)
	}
	f, err := Replace(path, append(data, '\n'))
	if err != nil {
		return fmt.Errorf("state: %w", err)
	}
	f.Close()
	return nil
}

// Replace puts a file with this content in the place of the one at path, readable by its
// owner alone; its directory must be there. On nil content and name are durable, and f is
// open for reading and writing; on an error the file at path is the old one, or the new.
func Replace(path string, content []byte) (f *os.File, err error) {
	temporary := path + ".new" // left by a crash, it is overwritten
	if f, err = os.OpenFile(temporary, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600); err != nil {
		return nil, err
	}
	if _, err = f.Write(content); err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = os.Rename(temporary, path)
	}
	if err == nil {
		err = SyncDir(filepath.Dir(path))
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// MakeDir makes a directory (0700) and those above it where they are missing. On nil
// they are durable: nothing that is written there goes with a name that was not.
func MakeDir(dir string) error {
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parent := filepath.Dir(dir)
	if err := MakeDir(parent); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return SyncDir(parent)
}

// SyncDir makes the names in dir durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// DamagedError says that a file held no document that Load could read. Nothing was
// deleted: the file has the name Kept now.
type DamagedError struct {
	Path, Kept string
	Err        error
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("state %s cannot be read and is now %s: %v", e.Path, e.Kept, e.Err)
}

// Unwrap returns what was wrong with the file.
func (e *DamagedError) Unwrap() error { return e.Err }

// Load reads into v, a pointer, what Save has written to path, and reports whether there
// was such a file. A file that is damaged is renamed and reported as a *DamagedError:
// the caller can go on without it. v may be filled in part then.
func Load(path string, v any) (found bool, err error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("state: %w", err)
	}
	if info.Size() > MaxBytes {
		return false, setAside(path, fmt.Errorf("it has %d bytes, at most %d are expected", info.Size(), MaxBytes))
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return false, fmt.Errorf("state: %w", err)
	}
	if err := json.Unmarshal(data, v); err != nil {
		return false, setAside(path, err)
	}
	return true, nil
}

func setAside(path string, cause error) error {
	kept := path + ".damaged"
	if err := os.Rename(path, kept); err != nil {
		return fmt.Errorf("state: %w", errors.Join(err, cause))
	}
	return &DamagedError{Path: path, Kept: kept, Err: cause}
}
