package exporter

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/docket-export/docket/config"
)

// Whereabouts returns the queue's directory and the section admin of a configuration file. The file
// may have mistakes elsewhere, or be invalid YAML: docket may still run with an earlier version of
// it. ok is false when the file names no queue.
func Whereabouts(data []byte) (directory string, admin AdminConfig, ok bool) {
	root, _ := config.Parse(data) // Load reports what is wrong
	doc := defaultDocument()
	if root.IsZero() {
		doc.Queue.Directory = valueIn(data, "queue", "directory")
		if address := valueIn(data, "admin", "address"); address != "" {
			doc.Admin.Address = address
		}
	} else {
		_ = root.Decode(&doc)
	}
	if checkAdminAddress(doc.Admin.Address) != nil {
		doc.Admin.Address = "" // nobody is asked there
	}
	return doc.Queue.Directory, doc.Admin, doc.Queue.Directory != ""
}

// valueIn finds the value of a key in a section of a file that is no YAML, where both are
// written as most people do: the section first on a line, and the key behind it in braces,
// or first on a line with more indentation. Empty: not found.
func valueIn(data []byte, section, key string) string {
	head := regexp.MustCompile(`(?m)^([ \t]*)` + section + `:`).FindSubmatchIndex(data)
	if head == nil {
		return ""
	}
	rest := string(data[head[1]:])
	if next := regexp.MustCompile(`\n[ \t]{0,` + strconv.Itoa(head[3]-head[2]) + `}[^\s#]`).FindStringIndex(rest); next != nil {
		rest = rest[:next[0]]
	}
	found := regexp.MustCompile(`(?m)(?:^[ \t]+|[{,][ \t]*)` + key + `:[ \t]+("[^"\n]*"|'[^'\n]*'|[^\s,}#"'][^,}\n]*)`).FindStringSubmatch(rest)
	if found == nil {
		return ""
	}
	value := found[1]
	if strings.ContainsAny(value[:1], `"'`) {
		return value[1 : len(value)-1]
	}
	value, _, _ = strings.Cut(value, " #")
	return strings.TrimSpace(value)
}
