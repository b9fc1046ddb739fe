// keysgen writes the keys of each section of the configuration into the pages that explain it.
//
//	go run ./internal/keysgen
//
// A page shows the keys below a path between two comments: <!-- keys: sinks[].http --> and
// <!-- end of keys -->. The keys come from keys.md.
package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

const table = "keys.md"

func main() {
	pages, err := stale(".")
	for page, text := range pages {
		if err == nil {
			err = os.WriteFile(page, text, 0o644)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "keysgen:", err)
		os.Exit(1)
	}
}

// stale returns what the pages below root ought to be that are otherwise.
func stale(root string) (map[string][]byte, error) {
	keys, err := os.ReadFile(filepath.Join(root, table))
	if err != nil {
		return nil, err
	}
	pages := map[string][]byte{}
	return pages, filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".md" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		written, err := write(string(keys), filepath.ToSlash(name), string(text))
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if !bytes.Equal(written, text) {
			pages[path] = written
		}
		return nil
	})
}

var (
	blocks  = regexp.MustCompile(`(?s)<!-- keys: (\S+) -->\n(.*?)<!-- end of keys -->`)
	opening = regexp.MustCompile(`<!-- keys:`)
	links   = regexp.MustCompile(`\]\(([^)]+)\)`)
)

// write returns a page with the blocks that it ought to have.
func write(keys, name, page string) ([]byte, error) {
	if len(opening.FindAllString(page, -1)) != len(blocks.FindAllString(page, -1)) {
		return nil, fmt.Errorf("a block of keys has no end: write <!-- keys: PATH --> and <!-- end of keys -->")
	}
	var err error
	written := blocks.ReplaceAllStringFunc(page, func(block string) string {
		path := blocks.FindStringSubmatch(block)[1]
		section, rows := below(keys, path)
		switch {
		case section == "":
			err = fmt.Errorf("%s has no keys below %s", table, path)
		case rows == "":
			rows = "This section has no keys.\n"
		default:
			rows = "| key | default | meaning |\n|---|---|---|\n" + byKind(keys, name, rows)
		}
		return fmt.Sprintf("<!-- keys: %s -->\n%s<!-- end of keys -->", path, relink(name, rows))
	})
	return []byte(written), err
}

// below returns the first section of keys.md with rows of keys below path, and these rows; or the
// section of a kind that has no keys.
func below(keys, path string) (section, rows string) {
	list, kind, _ := strings.Cut(path, "[].")
	for section := range strings.SplitSeq(keys, "\n## ") {
		heading, text, _ := strings.Cut(section, "\n")
		for line := range strings.Lines(text) {
			if rest, ok := strings.CutPrefix(line, "| `"+path); ok && (rest[0] == '.' || rest[0] == '`') {
				rows += line
			}
		}
		if rows != "" || heading == "Sink "+kind && list == "sinks" || heading == "Source "+kind && list == "sources" {
			return section, rows
		}
	}
	return "", ""
}

// byKind replaces defaults that differ from kind to kind, on the page of a kind.
func byKind(keys, name, rows string) string {
	kind := regexp.MustCompile("(?m)^\\| `" + strings.TrimSuffix(filepath.Base(name), ".md") + "` \\| (\\S+) \\| (\\S+) \\| (\\S+) \\|$")
	m := kind.FindStringSubmatch(keys)
	for i, key := range []string{"maxRecords", "maxBytes", "maxWait"} {
		if m != nil {
			rows = strings.Replace(rows, "."+key+"` | by kind |", "."+key+"` | `"+m[i+1]+"` |", 1)
		}
	}
	return rows
}

// relink changes links from keys.md to ones from another page below docs/.
func relink(name, rows string) string {
	up := strings.Repeat("../", strings.Count(name, "/"))
	return links.ReplaceAllStringFunc(rows, func(link string) string {
		target := links.FindStringSubmatch(link)[1]
		switch {
		case strings.Contains(target, "://"):
		case strings.HasPrefix(target, "#"):
			target = up + table + target
		case strings.HasPrefix(target, name+"#"):
			target = strings.TrimPrefix(target, name)
		default:
			target = up + target
		}
		return "](" + target + ")"
	})
}
