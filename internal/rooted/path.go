// Package rooted opens, makes, renames and removes files by name below a directory that
// others may write to.
//
// A Path has two parts. The root is a directory that the operator has named: it may lead
// over symbolic links. Everything below the root is docket's own, so a symbolic link, a
// pipe or a device there was planted: it would have docket read, write or truncate a file
// elsewhere, or wait for ever. Each call opens the root, and then one component after the
// other with openat and O_NOFOLLOW, so that there is no moment between a look and a use.
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

// Path is that of a file or directory below a root.
type Path struct {
	root  string
	below string // "." for the root itself
}

// At is the root itself.
func At(root string) Path { return Path{filepath.Clean(root), "."} }

// Join is the path of what lies below p. Elements that would lead above the root lead to
// the root.
func (p Path) Join(elements ...string) Path {
	below := filepath.Join("/", p.below, filepath.Join(elements...))
	return Path{p.root, cmp.Or(strings.TrimPrefix(below, "/"), ".")}
}

// Append is the path whose name has suffix behind it.
func (p Path) Append(suffix string) Path {
	if p.below == "." {
		return At(p.root + suffix)
	}
	return Path{p.root, p.below + suffix}
}

// Dir is the directory that p lies in. That of a root is one that the operator has
// named as well.
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

// String is the path as others write it.
func (p Path) String() string { return filepath.Join(p.root, p.below) }
