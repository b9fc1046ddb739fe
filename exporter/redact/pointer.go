package redact

import (
	"errors"
	"strings"
)

// pointer is a rule that names values by where they stand.
type pointer struct {
	path   []segment // at least one
	action Action
	with   []byte // what Replace writes, as JSON
	key    *key   // of HMACSHA256
}

// segment is one step of a pointer.
type segment struct {
	name string // of a member, or the index of an item
	any  bool   // every member, every item
}

func (s segment) matches(name []byte) bool { return s.any || s.name == string(name) }

// parsePointer reads an RFC 6901 pointer in which "*" is every member or item.
func parsePointer(text string) ([]segment, error) {
	rest, ok := strings.CutPrefix(text, "/")
	if !ok {
		return nil, errors.New("must begin with a slash, such as /request/object/data/*")
	}
	var path []segment
	for part := range strings.SplitSeq(rest, "/") {
		plain := strings.NewReplacer("~0", "", "~1", "").Replace(part)
		if strings.Contains(plain, "~") {
			return nil, errors.New("has a ~ without 0 or 1 after it: write ~0 for ~, and ~1 for /")
		}
		name := strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		path = append(path, segment{name: name, any: part == "*"})
	}
	return path, nil
}
