// Package patch lays unified diffs over files of which a test has the originals.
package patch

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// File is what a diff says of one file.
type File struct {
	Name string // with slashes, below the root of the source

	hunks []hunk
}

// hunk is one place of a file.
type hunk struct {
	line          int // of the original, from 1; 0: the file is new
	before, after []string
	added         []string
}

// header is the first line of a hunk.
var header = regexp.MustCompile(`^@@ -(\d+)(?:,\d+)? \+\d+(?:,\d+)? @@`)

// Parse reads diffs as git writes them, one after the other. An empty line is one that
// both sides have.
func Parse(diffs string) ([]File, error) {
	var files []File
	var h *hunk // the last one
	for line := range strings.Lines(diffs) {
		line = strings.TrimSuffix(line, "\n")
		begin := header.FindStringSubmatch(line)
		switch {
		case strings.HasPrefix(line, "--- "):
			h = nil
		case strings.HasPrefix(line, "+++ b/"):
			files = append(files, File{Name: strings.TrimPrefix(line, "+++ b/")})
		case begin != nil && len(files) > 0:
			n, err := strconv.Atoi(begin[1])
			if err != nil {
				return nil, err
			}
			f := &files[len(files)-1]
			f.hunks = append(f.hunks, hunk{line: n})
			h = &f.hunks[len(f.hunks)-1]
		case h == nil || !h.take(line):
			return nil, fmt.Errorf("no line of a diff: %q", line)
		}
	}
	if len(files) == 0 {
		return nil, errors.New("there is no diff")
	}
	return files, nil
}

// take adds a line to the hunk. It returns false if it is none.
func (h *hunk) take(line string) bool {
	kind, text := " ", ""
	if line != "" {
		kind, text = line[:1], line[1:]
	}
	switch kind {
	case " ":
		h.before, h.after = append(h.before, text), append(h.after, text)
	case "-":
		h.before = append(h.before, text)
	case "+":
		h.after, h.added = append(h.after, text), append(h.added, text)
	default:
		return false
	}
	return true
}

// New is whether there is no original.
func (f File) New() bool { return len(f.hunks) > 0 && f.hunks[0].line == 0 }

// Added returns the lines that the file gains.
func (f File) Added() []string {
	var all []string
	for _, h := range f.hunks {
		all = append(all, h.added...)
	}
	return all
}

// Apply returns the file as it is after the change, and for an original that is not the
// one of the diff an error with the first line that differs.
func (f File) Apply(original string) (string, error) {
	lines := strings.SplitAfter(original, "\n")
	var out strings.Builder
	done := 0 // lines of the original
	for _, h := range f.hunks {
		at := max(h.line-1, 0)
		for i, want := range h.before {
			got := "the end"
			if at+i < len(lines) {
				got = strings.TrimSuffix(lines[at+i], "\n")
			}
			if at < done || got != want {
				return "", fmt.Errorf("line %d of %s is not the one of the diff: got %q, want %q", at+i+1, f.Name, got, want)
			}
		}
		if len(h.before) > 0 {
			out.WriteString(strings.Join(lines[done:at], ""))
			done = at + len(h.before)
		}
		for _, line := range h.after {
			out.WriteString(line + "\n")
		}
	}
	out.WriteString(strings.Join(lines[done:], ""))
	return out.String(), nil
}
