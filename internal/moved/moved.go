// Package moved has the marks of directories that docket queue move has moved, or is moving.
// A directory with a mark is not to be used: of the two that hold the same, at most one
// has none.
package moved

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/internal/human"
)

// The names of marks.
const (
	ToFile   = "moved-to"    // in the old directory, from when the new one is whole; it stays
	FromFile = "moving-from" // in the new directory, until the old one has its mark
)

// Mark says what is moved where.
type Mark struct {
	Queue string `json:"queue"` // its id
	From  string `json:"from"`
	To    string `json:"to"`
	// With are directories that are moved together with this one.
	With []Mark `json:"with,omitempty"`
}

// Error says that a directory must not be used.
type Error struct {
	Mark
	IsWhole bool // it is the old one
}

func (e *Error) Error() string {
	if e.IsWhole {
		return fmt.Sprintf("moved to %s: name the new directory, or mount its volume here", Show(e.To))
	}
	return fmt.Sprintf("the move from %s has not finished: run docket queue move again", Show(e.From))
}

// maxShown is the longest path that Linux opens.
const maxShown = 4096

// Show makes a path in a mark safe for a line on a terminal: others may write to the volume.
func Show(path string) string { return human.OneLine(path[:min(len(path), maxShown)]) }

// Check fails with *Error when dir has a mark.
func Check(dir disk.Path) error {
	for _, name := range []string{ToFile, FromFile} {
		mark, err := Read(dir, name)
		if err != nil {
			return err
		}
		if mark != nil {
			return &Error{*mark, name == ToFile}
		}
	}
	return nil
}

// maxMark is more than a mark has: some paths.
const maxMark = 1 << 20

// Read returns a mark of dir, or nil without one.
func Read(dir disk.Path, name string) (*Mark, error) {
	at := dir.Join(name)
	text, err := at.Read(maxMark)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	mark := &Mark{}
	if err == nil {
		err = json.Unmarshal(text, mark)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", at, err)
	}
	return mark, nil
}

// Write makes a durable mark in dir.
func Write(dir disk.Path, name string, m Mark) error {
	text, err := json.Marshal(m)
	if err == nil {
		err = dir.Join(name).Replace(append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("mark %s: %w", dir, err)
	}
	return nil
}

// Remove removes a mark of dir, if it has one, durably.
func Remove(dir disk.Path, name string) error {
	err := dir.Join(name).RemoveAny()
	if err == nil {
		err = dir.SyncDir()
	}
	return err
}
