// Package rooted opens, makes, renames and removes files by name below a directory that
// others may write to.
//
// A Path has two parts. The root is a directory that the operator has named: it may lead
// over symbolic links. Everything below the root is docket's own, so a symbolic link, a
// pipe or a device there was planted. It could make docket read, write or truncate a file
// elsewhere, or wait forever. Each call opens the root, and then one component after the
// other with openat and O_NOFOLLOW, so that nothing can change between a look and a use.
// Anything planted is reported as a *PlantedError; it is never followed or changed.
//
// os.Root keeps names within a directory and follows links that stay in it. A link from
// one file of docket's to another is as harmful as one that leads out, so it is not
// enough here.
package rooted

import (
	"cmp"
	"path/filepath"
	"strings"
)

// Path is the path of a file or directory below a root.
type Path struct {
	root  string
	below string // "." for the root itself
}

// At returns the root itself.
func At(root string) Path { return Path{filepath.Clean(root), "."} }

// Join returns the path of something below p. Elements that would lead above the root lead
// to the root.
func (p Path) Join(elements ...string) Path {
	below := filepath.Join("/", p.below, filepath.Join(elements...))
	return Path{p.root, cmp.Or(strings.TrimPrefix(below, "/"), ".")}
}

// Append returns the path with suffix added to its name.
func (p Path) Append(suffix string) Path {
	if p.below == "." {
		return At(p.root + suffix)
	}
	return Path{p.root, p.below + suffix}
}

// Dir returns the directory that holds p. The directory above a root belongs to the operator
// too.
func (p Path) Dir() Path {
	if p.below == "." {
		return At(filepath.Dir(p.root))
	}
	return Path{p.root, filepath.Dir(p.below)}
}

// IsRoot reports whether p is the root itself.
func (p Path) IsRoot() bool { return p.below == "." }

// Base is the last component.
func (p Path) Base() string { return filepath.Base(p.String()) }

// String returns the whole path, with the root.
func (p Path) String() string { return filepath.Join(p.root, p.below) }
