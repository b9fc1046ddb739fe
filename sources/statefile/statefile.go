// Package statefile keeps what a source must know after a restart: one JSON document
// in a file that is replaced as a whole. It lies below the directory of the queue, where
// no link is followed; see package rooted.
package statefile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/docket-export/docket/internal/fileversion"
	"github.com/docket-export/docket/internal/rooted"
)

// MaxBytes bounds what Load reads: a longer file is none that Save wrote.
const MaxBytes = 256 << 20

// Save replaces the file at path by the JSON of v, making its directory (0700) where it
// is missing. On nil the new content is durable; on an error the file holds what it held
// before, or v. The file is readable by its owner alone. Calls for one path must not
// overlap.
func Save(path rooted.Path, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("state %s: %w", path, err)
	}
	if err := MakeDir(path.Dir()); err != nil {
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
func Replace(path rooted.Path, content []byte) (f *os.File, err error) {
	temporary := path.Append(".new")
	if f, err = temporary.Create(0o600); err != nil {
		return nil, err
	}
	if _, err = f.Write(content); err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = temporary.Rename(path)
	}
	if err == nil {
		err = path.Dir().SyncDir()
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// MakeDir makes a directory (0700) and those above it where they are missing. On nil
// they are durable: nothing that is written there goes with a name that was not.
func MakeDir(dir rooted.Path) error { return dir.MakeDir(0o700) }

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
// was such a file. version is the newest that the caller reads: a document says in its
// member "version" which one it has, and is of version 1 without it. Of another version
// it is whole, left as it is, and reported as a *fileversion.Error. A file that is damaged
// is renamed and reported as a *DamagedError: the caller can go on without it. v may be
// filled in part then.
func Load(path rooted.Path, version uint64, v any) (found bool, err error) {
	data, err := read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		err = decode(data, path, version, v)
	}
	if damage, ok := errors.AsType[*damage](err); ok {
		err = setAside(path, damage.err)
	}
	return err == nil, err
}

// Check reports a document at path of a version that Load would not read, as a
// *fileversion.Error. It changes nothing, and says nothing of what else may be wrong.
func Check(path rooted.Path, version uint64) error {
	data, err := read(path)
	if err == nil {
		err = decode(data, path, version, new(struct{}))
	}
	if unknown, ok := errors.AsType[*fileversion.Error](err); ok {
		return unknown
	}
	return nil
}

// damage is what is wrong with a file that Save did not write.
type damage struct{ err error }

func (d *damage) Error() string { return d.err.Error() }

func read(path rooted.Path) ([]byte, error) {
	f, err := path.Open()
	if err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	if info.Size() > MaxBytes {
		return nil, &damage{fmt.Errorf("it has %d bytes, at most %d are expected", info.Size(), MaxBytes)}
	}
	data, err := io.ReadAll(io.LimitReader(f, MaxBytes))
	if err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	return data, nil
}

func decode(data []byte, path rooted.Path, version uint64, v any) error {
	head := struct {
		Version *uint64 `json:"version"`
	}{}
	// What is no document, or one of another kind, is for v to tell.
	if json.Unmarshal(data, &head) == nil && head.Version != nil && (*head.Version == 0 || *head.Version > version) {
		return &fileversion.Error{File: path.String(), Found: *head.Version, Known: version}
	}
	if err := json.Unmarshal(data, v); err != nil {
		return &damage{err}
	}
	return nil
}

func setAside(path rooted.Path, cause error) error {
	kept := path.Append(".damaged")
	if err := path.Rename(kept); err != nil {
		return fmt.Errorf("state: %w", errors.Join(err, cause))
	}
	return &DamagedError{Path: path.String(), Kept: kept.String(), Err: cause}
}
