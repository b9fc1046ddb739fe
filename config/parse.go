package config

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"sort"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Bounds of a document. An honest configuration has some hundreds of lines and nests six deep. A
// document beyond these bounds is the wrong file, and refusing it keeps the cost of a mistake
// small.
const (
	MaxDocument = 1 << 20 // bytes
	maxDepth    = 32
)

// Parse reads one YAML document. It refuses what makes a configuration say
// something else than a person reads in it: a second document, duplicate keys,
// anchors, aliases, merge keys and tags.
//
// The Node can be decoded whatever the problems are, so that all the problems of
// a document are reported together: what was refused is missing from it. After
// a syntax error it is empty, and decoding it does nothing.
func Parse(data []byte) (Node, Problems) {
	if len(data) > MaxDocument {
		return Node{}, Problems{{Text: "the document is larger than 1 MiB"}}
	}
	line := 0
	for text := range bytes.Lines(data) {
		line++
		if !utf8.Valid(text) { // YAML itself would take UTF-16 as well
			return Node{}, Problems{{Line: line, Text: "must be UTF-8 text"}}
		}
	}
	docs := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	if err := docs.Decode(&doc); errors.Is(err, io.EOF) {
		return Node{}, Problems{{Text: "the document is empty"}}
	} else if err != nil {
		return Node{}, Problems{syntaxError(data, err)}
	}
	root := doc.Content[0]
	if root.Tag == nullTag {
		return Node{}, Problems{{Text: "the document is empty"}}
	}

	var c cleaner
	c.value(root, "", root.Line, 0)
	if err := docs.Decode(&second); err == nil {
		c.addf("", second.Line, "must be one document: another one begins here")
	} else if !errors.Is(err, io.EOF) {
		c.problems = append(c.problems, syntaxError(data, err))
	}
	return Node{line: root.Line, yaml: root}, c.problems
}

// The library's own line, where it gives one, is dropped: it may be one too low,
// or that of the enclosing mapping.
var syntaxErrorText = regexp.MustCompile(`^yaml: (?:line \d+: )?`)

// syntaxError is err with the line where it becomes unavoidable: the last line of
// the shortest beginning of data that fails in the same way.
func syntaxError(data []byte, err error) Problem {
	text := syntaxErrorText.ReplaceAllString(err.Error(), "")
	var ends []int // offsets just behind each line
	for i, b := range data {
		if b == '\n' || i == len(data)-1 {
			ends = append(ends, i+1)
		}
	}
	n := sort.Search(len(ends)-1, func(i int) bool {
		err := readAll(data[:ends[i]])
		return err != nil && syntaxErrorText.ReplaceAllString(err.Error(), "") == text
	})
	return Problem{Line: n + 1, Text: "syntax error: " + text}
}

// readAll reads every document of data and returns what is wrong with the first
// broken one.
func readAll(data []byte) error {
	docs := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var doc yaml.Node
		if err := docs.Decode(&doc); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// cleaner reports what Parse refuses and takes it out of the tree, so that
// nothing behind Parse meets an alias, a tag or a key twice.
type cleaner struct{ problems Problems }

func (c *cleaner) addf(path string, line int, format string, args ...any) {
	c.problems = append(c.problems, Node{path: path, line: line}.Problemf(format, args...))
}

// value cleans n, which lies depth collections deep.
func (c *cleaner) value(n *yaml.Node, path string, line, depth int) {
	if n.Anchor != "" {
		c.addf(path, line, "anchors (&%s) are not supported: write the value out where it is used", shorten(n.Anchor))
		n.Anchor = ""
	}
	switch {
	case n.Kind == yaml.AliasNode:
		c.addf(path, line, "aliases (*%s) are not supported: write the value out, in quotes if the * belongs to it", shorten(n.Value))
		blank(n)
	case n.Style&yaml.TaggedStyle != 0:
		c.addf(path, line, "tags (%s) are not supported: put a string in quotes", shorten(n.Tag))
		blank(n)
	case n.Kind == yaml.ScalarNode:
	case depth == maxDepth:
		c.addf(path, line, "must not be nested more than %d deep", maxDepth)
		blank(n)
	case n.Kind == yaml.SequenceNode:
		for i, item := range n.Content {
			c.value(item, join(path, indexPath(i)), item.Line, depth+1)
		}
	case n.Kind == yaml.MappingNode:
		c.mapping(n, path, depth)
	}
}

func (c *cleaner) mapping(n *yaml.Node, path string, depth int) {
	lines := make(map[string]int) // of the first of each key
	kept := n.Content[:0]
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if !c.key(key, path) {
			continue
		}
		at := join(path, keyPath(key.Value))
		if first, ok := lines[key.Value]; ok {
			c.addf(at, key.Line, "duplicate key, first on line %d", first)
			continue
		}
		lines[key.Value] = key.Line
		c.value(value, at, key.Line, depth+1)
		kept = append(kept, key, value)
	}
	n.Content = kept
}

// key reports whether a mapping may have key.
func (c *cleaner) key(key *yaml.Node, path string) bool {
	switch {
	case key.Kind != yaml.ScalarNode || key.Anchor != "" || key.Style&yaml.TaggedStyle != 0 || key.Tag == nullTag:
		c.addf(path, key.Line, "a key must be plain text: put it in quotes")
	case key.Tag == mergeTag:
		c.addf(path, key.Line, "merge keys (<<) are not supported: write the keys out")
	default:
		return true
	}
	return false
}

// blank makes n null, which stands for "keep the default".
func blank(n *yaml.Node) {
	*n = yaml.Node{Kind: yaml.ScalarNode, Tag: nullTag, Line: n.Line, Column: n.Column}
}
