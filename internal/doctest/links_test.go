package doctest

import (
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

var (
	fence    = regexp.MustCompile("^ {0,8}(```+|~~~+)")
	codeSpan = regexp.MustCompile("``.+?``|`[^`]*`")
	link     = regexp.MustCompile(`\]\(<?([^()\s>]*(?:\([^()\s]*\)[^()\s]*)*)>?(?:\s+"[^"]*")?\)`)
	source   = regexp.MustCompile(`(?:src|href)="([^"]+)"`)
	defined  = regexp.MustCompile(`^ {0,3}\[[^\]]+\]:\s+(\S+)`)
	heading  = regexp.MustCompile(`^ {0,3}#{1,6} +(.+?)(?: +#+)?$`)
	named    = regexp.MustCompile(`<a (?:id|name)="([^"]+)"`)
	linked   = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)
)

// markdown is a page: its links, and the anchors that others can name.
type markdown struct {
	links   []string
	anchors []string
}

func readPage(text string) (p markdown) {
	seen := map[string]int{}
	block := ""
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		if f := fence.FindStringSubmatch(line); f != nil && (block == "" || strings.HasPrefix(f[1], block)) {
			if block == "" {
				block = f[1]
			} else {
				block = ""
			}
			continue
		}
		if block != "" {
			continue
		}
		if h := heading.FindStringSubmatch(line); h != nil {
			a := anchor(h[1])
			p.anchors = append(p.anchors, numbered(a, seen[a]))
			seen[a]++
		}
		for _, m := range named.FindAllStringSubmatch(line, -1) {
			p.anchors = append(p.anchors, m[1])
		}
		line = codeSpan.ReplaceAllString(line, "")
		for _, e := range []*regexp.Regexp{link, source, defined} {
			for _, m := range e.FindAllStringSubmatch(line, -1) {
				p.links = append(p.links, m[1])
			}
		}
	}
	return p
}

// anchor returns the name that GitHub, and the site, give a heading.
func anchor(heading string) string {
	heading = linked.ReplaceAllString(heading, "$1")
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r):
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}

// numbered is the anchor of the n-th heading of the same words, from 0.
func numbered(a string, n int) string {
	if n == 0 {
		return a
	}
	return a + "-" + string(rune('0'+n))
}

// skipped reports whether a directory has no pages: below internal are parts of generated ones.
func skipped(dir string) bool {
	return slices.Contains([]string{".git", ".cache", "bin", "internal", "testdata"}, dir)
}

// broken returns the links of the Markdown files below root that lead nowhere.
func broken(root string) (found []string, files int, err error) {
	pages := map[string]markdown{}
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && skipped(d.Name()) && path != filepath.Join(root, "testdata"):
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".md":
			return nil
		}
		text, err := os.ReadFile(path)
		pages[path] = readPage(string(text))
		return err
	})
	for path, p := range pages {
		for _, to := range p.links {
			if why := lookUp(pages, path, to); why != "" {
				name, _ := filepath.Rel(root, path)
				found = append(found, filepath.ToSlash(name)+": "+to+": "+why)
			}
		}
	}
	slices.Sort(found)
	return found, len(pages), err
}

// lookUp returns why a link of the page at path leads nowhere, or "". Links to other
// hosts are not followed.
func lookUp(pages map[string]markdown, path, to string) string {
	u, err := url.Parse(to)
	switch {
	case err != nil:
		return "is no link"
	case u.Scheme != "" || u.Host != "":
		return ""
	case strings.HasPrefix(u.Path, "/"):
		return "is absolute: name the file relative to this one"
	}
	at := path
	if u.Path != "" {
		at = filepath.Join(filepath.Dir(path), filepath.FromSlash(u.Path))
	}
	if _, err := os.Stat(at); err != nil {
		return "there is no such file"
	}
	if p, ok := pages[at]; ok && u.Fragment != "" && !slices.Contains(p.anchors, u.Fragment) {
		return "there is no such heading"
	}
	return ""
}

func TestLinks(t *testing.T) {
	found, files, err := broken("../..")
	if err != nil {
		t.Fatal(err)
	}
	if files < 40 {
		t.Errorf("got %d files of Markdown: are they elsewhere now?", files)
	}
	for _, f := range found {
		t.Error(f)
	}
}
