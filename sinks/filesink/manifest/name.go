package manifest

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"unicode"
	"unicode/utf8"
)

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
