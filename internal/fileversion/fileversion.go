// Package fileversion refuses files of docket's own whose format version this docket
// does not know. Such a file is whole: it must not be taken for damage, set aside or
// replaced. docs/file-formats.md lists the formats and their versions.
package fileversion

import "fmt"

// Error says that this docket does not read the format version of a file. The file is
// unchanged.
type Error struct {
	File  string // path of the file
	Found uint64 // the version it has
	Known uint64 // the newest version that this docket reads
}

func (e *Error) Error() string {
	if e.Found > e.Known {
		return fmt.Sprintf("%s has format version %d, and this docket reads versions up to %d: run the newer docket that wrote it", e.File, e.Found, e.Known)
	}
	return fmt.Sprintf("%s has format version %d, which this docket no longer reads: run the older docket that wrote it until nothing is pending, then remove the file", e.File, e.Found)
}
