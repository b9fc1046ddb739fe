// Package docs has the pages that explain the keys of configuration files.
package docs

//go:generate go run ./internal/keysgen

import (
	_ "embed" // the pages
	"regexp"
)

// Pages with a table of keys.
var (
	//go:embed keys.md
	Configuration string
	//go:embed tap.md
	Tap string
)

var (
	row  = regexp.MustCompile("(?m)^\\| `([^`]+)` \\|.*\\| ([^|]+) \\|$")
	link = regexp.MustCompile(`\[([^]]+)\]\([^)]+\)`)
)

// Keys returns what the tables of a page say of each key, by its path, such as
// "sinks[].http.url". Links are reduced to their text.
func Keys(page string) map[string]string {
	keys := make(map[string]string)
	for _, match := range row.FindAllStringSubmatch(page, -1) {
		keys[match[1]] = link.ReplaceAllString(match[2], "$1")
	}
	return keys
}
