// Package statefile keeps what a source must know after a restart: one JSON document
// in a file that is replaced as a whole. It lies below the directory of the queue, where
// no link is followed; see package disk.
package statefile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/internal/fileversion"
)

// MaxBytes bounds what Load reads: Save never writes a longer file.
const MaxBytes = 256 << 20

// Save replaces the file at path by the JSON of v. It makes a missing directory, with
// mode 0700. On nil the new content is durable. On an error the file holds its old
// content, or v. The file is readable by its owner alone. Calls for one path must not
// overlap.
func Save(path disk.Path, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("state %s: %w", path, err)
	}
	there, err := path.Exists()
	if err == nil && !there { // a file that was saved has a durable directory
		err = path.Dir().MakeDir()
	}
	if err == nil {
		err = path.Replace(append(data, '\n'))
	}
	if err != nil {
		return fmt.Errorf("state: %w", err)
	}
	return nil
}

// DamagedError says that a file held no document that Load could read. Nothing was
// deleted: the file has the name Kept now.
type DamagedError struct {
	Path, Kept string
	Err        error
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("state %s is damaged and was renamed to %s: %v", e.Path, e.Kept, e.Err)
}

// Unwrap returns what was wrong with the file.
func (e *DamagedError) Unwrap() error { return e.Err }

// Load reads into v, a pointer, what Save has written to path, and reports whether there
// was such a file. version is the newest version that the caller reads. A document has its
// version in the member "version", and is of version 1 without it. Load leaves a document
// of another version unchanged, and reports a *fileversion.Error. It renames a damaged
// file and reports a *DamagedError: the caller can go on without the file. v may be filled
// in part then.
func Load(path disk.Path, version uint64, v any) (found bool, err error) {
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
// *fileversion.Error. It changes nothing, and reports no other mistake of the document.
func Check(path disk.Path, version uint64) error {
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

func read(path disk.Path) ([]byte, error) {
	data, err := path.Read(MaxBytes + 1)
	if err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	if len(data) > MaxBytes {
		return nil, &damage{fmt.Errorf("the file has more than %d bytes", MaxBytes)}
	}
	return data, nil
}

func decode(data []byte, path disk.Path, version uint64, v any) error {
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

func setAside(path disk.Path, cause error) error {
	kept := path.Append(".damaged")
	if err := path.Rename(kept); err != nil {
		return fmt.Errorf("state: %w", errors.Join(err, cause))
	}
	return &DamagedError{Path: path.String(), Kept: kept.String(), Err: cause}
}
