package manifest

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The names in the directory of an export. A file of records that is compressed ends with .gz
// or .zst besides.
const (
	FileName     = "manifest.jsonl"
	ActiveName   = "decisions-active.ndjson"   // the file that grows
	PositionName = "decisions-active.position" // how much of it counts
	ActivePrefix = "decisions-active."         // both, and what is to replace them
	AsidePrefix  = "decisions-unnumbered-"     // what the sink has set aside
	LockName     = ".decisions.lock"
	NewSuffix    = ".new" // of a file that is to replace the one without
)

// Finished is the name of a file with the records first to last that was finished at a time.
func Finished(first, last uint64, time, suffix string) string {
	return fmt.Sprintf("decisions-%020d-%020d-%s.ndjson%s", first, last, time, suffix)
}

// Aside is the name of something that was set aside at a time.
func Aside(time, suffix string) string { return AsidePrefix + time + "." + suffix }

// IsFinished reports whether name is one that Finished makes. Earlier builds could put such files
// into directories of days.
func IsFinished(name string) bool { return finishedPattern.MatchString(name) }

var finishedPattern = regexp.MustCompile(`^(\d{4}-\d\d-\d\d/)?decisions-\d{20}-\d{20}-\d{8}T\d{6}Z\.ndjson(\.gz|\.zst)?$`)

// MayBeFinished reports whether a file may be one that a sink has finished, perhaps under another
// name: for those who only read it.
func MayBeFinished(name string) bool {
	base := strings.TrimSuffix(strings.TrimSuffix(path.Base(name), ".gz"), ".zst")
	return strings.HasPrefix(base, "decisions-") && strings.HasSuffix(base, ".ndjson")
}

// maxName bounds a name: more is no path on any system that docket runs on.
const maxName = 1024

// CheckName says what is wrong with the name of a file in an export. A valid
// name is a printable path below the directory, in its one spelling.
func CheckName(name string) error {
	switch {
	case len(name) > maxName:
		return fmt.Errorf("the name has more than %d bytes", maxName)
	case !fs.ValidPath(name) || name == "." || strings.Contains(name, `\`):
		return fmt.Errorf("name %q is not a path below the directory of the export", name)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }):
		return fmt.Errorf("name %q has characters that cannot be printed", name)
	case name == FileName:
		return errors.New("the name belongs to the manifest")
	}
	return nil
}
