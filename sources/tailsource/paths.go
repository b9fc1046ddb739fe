package tailsource

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// paths says which files a configured path names.
type paths struct {
	text  string // absolute
	isDir bool   // a directory, or a pattern of directories: their files *.log
}

// pathsOf reads a configured path. It is a pattern if it has such characters and no file has
// that name, and a directory if it ends with a slash or is one.
func pathsOf(path string) (p paths, err error) {
	p.isDir = strings.HasSuffix(path, "/")
	if p.text, err = filepath.Abs(path); err != nil {
		return p, err
	}
	if info, err := os.Stat(p.text); err == nil {
		p.isDir = info.IsDir()
	}
	return p, nil
}

// isOther reports whether a path that was a file has become a directory, or the other way round.
func (p paths) isOther() bool {
	info, err := os.Stat(p.text)
	return err == nil && info.IsDir() != p.isDir
}

// isOne reports whether the path is that of one file.
func (p paths) isOne() bool { return !p.isDir && !p.isPattern() }

func (p paths) isPattern() bool {
	if !hasPattern(p.text) {
		return false
	}
	return !exists(p.text)
}

// isOf reports whether a file that need not exist any more is one of them.
func (p paths) isOf(path string) bool {
	match := func(path string) bool {
		ok, err := filepath.Match(p.text, path)
		return ok && err == nil || path == p.text
	}
	return match(path) || strings.HasSuffix(path, containerLog) && match(filepath.Dir(path))
}

// nextLife says that the path is one life of a container which has a next one, as kubelet names
// them: pods/NAMESPACE_POD_UID/CONTAINER/0.log, to which a link with the container's id leads.
func (p paths) nextLife() string {
	path := p.text
	for range 2 {
		dir := filepath.Dir(path)
		n, err := strconv.Atoi(strings.TrimSuffix(filepath.Base(path), containerLog))
		if err == nil && strings.Count(filepath.Base(filepath.Dir(dir)), "_") >= 2 {
			if next := filepath.Join(dir, strconv.Itoa(n+1)+containerLog); exists(next) {
				return fmt.Sprintf("the container has started anew and writes to %s, which docket does not read: set path to %s/", next, dir)
			}
		}
		target, err := os.Readlink(path)
		if err != nil || !filepath.IsAbs(target) {
			break
		}
		path = target
	}
	return ""
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// containerLog is how the files in a container's directory end; rotated files go on behind it.
const containerLog = ".log"

// find lists the files. The error says which directory cannot be read.
func (p paths) find() (found []string, err error) {
	if p.isOne() {
		return []string{p.text}, nil
	}
	matches := []string{p.text}
	if p.isPattern() {
		matches, err = p.glob()
	}
	for _, path := range matches {
		info, gone := os.Stat(path)
		switch {
		case gone != nil: // it has just gone, or is a link that leads nowhere yet
		case info.IsDir():
			logs, unread := containerLogs(path)
			found, err = append(found, logs...), errors.Join(err, unread)
		case !p.isDir:
			found = append(found, path)
		}
	}
	slices.Sort(found)
	return slices.Compact(found), err
}

// entries lists a directory. One that does not exist has none.
func entries(dir string) ([]os.DirEntry, error) {
	list, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		err = nil
	}
	return list, err
}

func containerLogs(dir string) (found []string, err error) {
	list, err := entries(dir)
	for _, e := range list {
		if strings.HasSuffix(e.Name(), containerLog) && !e.IsDir() {
			found = append(found, filepath.Join(dir, e.Name()))
		}
	}
	return found, err
}

// glob returns what matches the pattern, level by level.
func (p paths) glob() (found []string, err error) {
	found = []string{"/"}
	for _, element := range strings.Split(strings.Trim(p.text, "/"), "/") {
		var next []string
		for _, dir := range found {
			if !hasPattern(element) {
				next = append(next, filepath.Join(dir, element))
				continue
			}
			list, unread := entries(dir)
			err = errors.Join(err, unread)
			for _, e := range list {
				if ok, err := filepath.Match(element, e.Name()); ok && err == nil {
					next = append(next, filepath.Join(dir, e.Name()))
				}
			}
		}
		found = next
	}
	return found, err
}
