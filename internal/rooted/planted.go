package rooted

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// PlantedError says that docket did not create what has one of its names. docket neither
// followed nor changed it.
type PlantedError struct {
	Path string // what has the name
	Kind string // "a symbolic link"
}

func (e *PlantedError) Error() string {
	return fmt.Sprintf("%s is %s, which docket did not create and does not use: find out who created it, and remove it", e.Path, e.Kind)
}

// kindOf names what is in the way of something else. It is "" for a file with content.
func kindOf(mode fs.FileMode) string {
	switch mode.Type() {
	case 0:
		return ""
	case fs.ModeSymlink:
		return "a symbolic link"
	case fs.ModeNamedPipe:
		return "a named pipe"
	case fs.ModeSocket:
		return "a socket"
	case fs.ModeDir:
		return "a directory"
	case fs.ModeDevice, fs.ModeDevice | fs.ModeCharDevice:
		return "a device"
	}
	return "not a regular file"
}

// planted explains why the name in parent could not be opened: what it is instead of what
// was wanted, or err.
func planted(parent *os.File, name string, at Path, wantDir bool, err error) error {
	if !errors.Is(err, unix.ELOOP) && !errors.Is(err, unix.ENOTDIR) && !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.ENXIO) {
		return err
	}
	info, statErr := lstatIn(parent, name)
	if statErr != nil {
		return err
	}
	kind := kindOf(info.Mode())
	if wantDir && kind == "" {
		kind = "a file"
	}
	if kind == "" || wantDir && info.IsDir() { // it has changed meanwhile
		return err
	}
	return &PlantedError{Path: at.String(), Kind: kind}
}

// checkFile reports an open file that is no file with content of its own. One that is to
// be written must have one name only: by another name it is somebody else's.
func checkFile(f *os.File, at Path, written bool) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if kind := kindOf(info.Mode()); kind != "" {
		return &PlantedError{Path: at.String(), Kind: kind}
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return &fs.PathError{Op: "stat", Path: at.String(), Err: err}
	}
	if written && st.Nlink > 1 {
		return &PlantedError{Path: at.String(), Kind: "a file with another name (a hard link)"}
	}
	return nil
}
