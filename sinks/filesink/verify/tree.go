package verify

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/docket-export/docket/sinks/filesink/manifest"
)

// lostAndFound is where a check of the file system puts what it finds, at the root of one. Only
// its owner may look into it.
const lostAndFound = "lost+found"

// activeNames are those that the unfinished file may have.
var activeNames = []string{manifest.ActiveName, manifest.ActiveName + ".gz", manifest.ActiveName + ".zst"}

// tree is what lay in the directory before the manifest was read.
type tree struct {
	files  map[string]*bool // names that a line has to name; true once one has
	order  []string         // the same, sorted
	bytes  int64
	active []active // the unfinished file; none or one, unless somebody put more there
	aside  []string
}

// active is a file with the name of an unfinished one.
type active struct {
	name string
	info fs.FileInfo // nil: it was renamed when it was looked at
}

// walkTree collects the names below root. It follows no links.
func walkTree(root *os.Root) (t tree, err error) {
	t.files = map[string]*bool{}
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed meanwhile
		}
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name == lostAndFound {
				return fs.SkipDir
			}
			return nil
		}
		return t.add(name, d)
	})
	return t, err
}

func (t *tree) add(name string, d fs.DirEntry) error {
	switch base := path.Base(name); {
	case name == manifest.FileName, name == manifest.FileName+manifest.NewSuffix, name == manifest.LockName:
		return nil
	case strings.HasPrefix(name, manifest.ActivePrefix):
		if !slices.Contains(activeNames, name) {
			return nil
		}
		info, err := d.Info()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		t.active = append(t.active, active{name, info})
		return nil
	case strings.HasPrefix(base, manifest.AsidePrefix):
		t.aside = append(t.aside, name)
		return nil
	}
	info, err := d.Info()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	t.bytes += info.Size()
	t.files[name] = new(bool)
	t.order = append(t.order, name)
	return nil
}

// list notes that a line names a file.
func (t *tree) list(name string) {
	if listed, ok := t.files[name]; ok {
		*listed = true
	}
}

// errNotAFile is what open returns for anything but a regular file in regular
// directories.
var errNotAFile = errors.New("not a regular file")

// open opens a file below root for reading. The name has been checked, the file has not: so
// open follows no links and waits for no pipe. A missing file is fs.ErrNotExist.
func open(root *os.Root, name string) (*os.File, fs.FileInfo, error) {
	for i := range name {
		if name[i] != '/' {
			continue
		}
		info, err := root.Lstat(name[:i])
		if err != nil {
			return nil, nil, err
		}
		if !info.IsDir() {
			return nil, nil, fmt.Errorf("%s: %w: %s is a %s", name, errNotAFile, name[:i], typeText(info.Mode()))
		}
	}
	named, err := root.Lstat(name)
	if err != nil {
		return nil, nil, err
	}
	if !named.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%s: %w but a %s", name, errNotAFile, typeText(named.Mode()))
	}
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !os.SameFile(named, info) {
		err = fmt.Errorf("%s: %w: it was replaced while it was opened", name, errNotAFile)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

func typeText(m fs.FileMode) string {
	switch {
	case m.IsRegular():
		return "regular file"
	case m.IsDir():
		return "directory"
	case m&fs.ModeSymlink != 0:
		return "symbolic link"
	}
	return "special file"
}
