package config

import (
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// The tags that the YAML library gives to what it has read.
const (
	nullTag  = "!!null"
	boolTag  = "!!bool"
	intTag   = "!!int"
	floatTag = "!!float"
	timeTag  = "!!timestamp"
	strTag   = "!!str"
	mergeTag = "!!merge"
)

// Node is a value in a parsed document and knows its place there. The zero Node
// is a value that is not there: it has no keys or items, and decoding it changes
// nothing. Nodes are read-only and safe for concurrent use.
type Node struct {
	path string
	line int
	yaml *yaml.Node // nil in the zero Node
}

// Path is where the value stands, as "sinks[1].http.url"; empty for the document.
func (n Node) Path() string { return n.path }

// Line is the line of the value's key, from 1; of the value itself when it is an
// item of a list or the document.
func (n Node) Line() int { return n.line }

// IsZero reports whether n is the zero Node. A Node field that Decode has filled
// is zero when its key is absent.
func (n Node) IsZero() bool { return n.yaml == nil }

// Keys returns the keys of a mapping in the order of the file, nil for any other
// value.
func (n Node) Keys() []string {
	var keys []string
	for key := range n.members() {
		keys = append(keys, key)
	}
	return keys
}

// Get returns the value at key of a mapping. It is false when there is no such key, or
// n is not a mapping.
func (n Node) Get(key string) (Node, bool) {
	for k, member := range n.members() {
		if k == key {
			return member, true
		}
	}
	return Node{}, false
}

// Items returns the items of a list, nil for any other value.
func (n Node) Items() []Node {
	if !n.is(yaml.SequenceNode) {
		return nil
	}
	items := make([]Node, len(n.yaml.Content))
	for i, item := range n.yaml.Content {
		items[i] = Node{path: join(n.path, indexPath(i)), line: item.Line, yaml: item}
	}
	return items
}

// Problemf is a problem with this value; format and args are as for fmt.Sprintf.
func (n Node) Problemf(format string, args ...any) Problem {
	return Problem{Path: n.path, Line: n.line, Text: fmt.Sprintf(format, args...)}
}

// Locate returns p in the order of lines. It fills in missing lines: the line of the value at the
// problem's path below n, which is the document, or of the nearest value around it. Problems
// without a place in the document come first.
func (n Node) Locate(p Problems) Problems {
	lines := make(map[string]int)
	n.collectLines(lines)
	located := slices.Clone(p)
	for i := range located {
		q := &located[i]
		for path := q.Path; q.Line == 0 && path != ""; path = parentPath(path) {
			q.Line = lines[path]
		}
	}
	located.sort()
	return located
}

func (n Node) collectLines(lines map[string]int) {
	lines[n.path] = n.line
	for _, member := range n.members() {
		member.collectLines(lines)
	}
	for _, item := range n.Items() {
		item.collectLines(lines)
	}
}

// members are the keys and values of a mapping in the order of the file.
func (n Node) members() iter.Seq2[string, Node] {
	return func(yield func(string, Node) bool) {
		if !n.is(yaml.MappingNode) {
			return
		}
		for i := 0; i+1 < len(n.yaml.Content); i += 2 {
			key := n.yaml.Content[i]
			member := Node{path: join(n.path, keyPath(key.Value)), line: key.Line, yaml: n.yaml.Content[i+1]}
			if !yield(key.Value, member) {
				return
			}
		}
	}
}

func (n Node) is(kind yaml.Kind) bool { return n.yaml != nil && n.yaml.Kind == kind }

// isNull is true for a key without a value, and for the zero Node.
func (n Node) isNull() bool { return n.yaml == nil || n.yaml.Tag == nullTag }

// kind is what a person would call the value.
func (n Node) kind() string {
	switch {
	case n.is(yaml.MappingNode):
		return "a mapping"
	case n.is(yaml.SequenceNode):
		return "a list"
	case n.isNull():
		return "null"
	}
	switch n.yaml.Tag {
	case boolTag:
		return "a boolean"
	case intTag:
		return "a number"
	case floatTag:
		return "a fraction"
	case timeTag:
		return "a date"
	}
	return "a string"
}

var plainKey = regexp.MustCompile(`^[A-Za-z0-9_/-]{1,64}$`)

// keyPath is key as a part of a path. A key that could be taken for more than
// one part, or is no fit reading, is quoted: headers["X.Y"].
func keyPath(key string) string {
	if plainKey.MatchString(key) {
		return key
	}
	return "[" + strconv.Quote(shorten(key)) + "]"
}

func indexPath(i int) string { return "[" + strconv.Itoa(i) + "]" }

// parentPath is path without its last part. A quoted key may take several steps;
// no path of the document is met on the way.
func parentPath(path string) string {
	return path[:max(strings.LastIndexAny(path, ".["), 0)]
}

// shorten bounds text from the document that goes into a message.
func shorten(s string) string {
	const most = 64 // runes: longer than any key there is
	runes := 0
	for i := range s {
		if runes == most {
			return s[:i] + "..."
		}
		runes++
	}
	return s
}
