package encoding

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// indexName is the name of an index with parts of a time in it.
type indexName struct{ parts []indexPart }

// indexPart is literal text or, when layout is set, a time. It may be empty.
type indexPart struct {
	literal string
	layout  string // for time.Format
}

// maxIndexName is Elasticsearch's own limit, in bytes.
const maxIndexName = 255

// dateUnits are the parts of a time that may stand in braces.
var dateUnits = []struct{ written, layout string }{
	{"yyyy", "2006"}, {"MM", "01"}, {"dd", "02"}, {"HH", "15"},
}

// parseIndexName reads a name such as decisions-{yyyy.MM.dd}.
func parseIndexName(text string) (*indexName, error) {
	n := &indexName{}
	for rest := text; rest != ""; {
		literal, after, dated := strings.Cut(rest, "{")
		date, next, closed := strings.Cut(after, "}")
		layout := dateLayout(date)
		if dated && (!closed || layout == "") || strings.Contains(literal, "}") {
			return nil, errors.New("must have time fields in braces, yyyy, MM, dd or HH with . - or _ between them: decisions-{yyyy.MM.dd}")
		}
		n.parts = append(n.parts, indexPart{literal: literal}, indexPart{layout: layout})
		rest = next
	}
	return n, checkIndexName(string(n.append(nil, time.Unix(0, 0))))
}

// dateLayout is the layout for what stands in braces, empty if it is none.
func dateLayout(date string) string {
	var layout strings.Builder
	units := 0
next:
	for date != "" {
		for _, u := range dateUnits {
			if rest, ok := strings.CutPrefix(date, u.written); ok {
				layout.WriteString(u.layout)
				units++
				date = rest
				continue next
			}
		}
		if strings.IndexByte(".-_", date[0]) < 0 {
			return ""
		}
		layout.WriteByte(date[0])
		date = date[1:]
	}
	if units == 0 {
		return ""
	}
	return layout.String()
}

// checkIndexName checks a name by the rules of both products, so that no record
// meets them first.
//
// https://www.elastic.co/docs/api/doc/elasticsearch/operation/operation-indices-create
func checkIndexName(name string) error {
	switch {
	case len(name) > maxIndexName:
		return fmt.Errorf("must have at most %d bytes", maxIndexName)
	case name == "." || name == ".." || strings.TrimLeft(name, "-_+") != name:
		return errors.New("must not be . or .. nor begin with - _ or +")
	case strings.ToLower(name) != name:
		return errors.New("must be in lower case")
	case strings.ContainsAny(name, "\\/*?\"<>|,#: ") || plainText(name) != nil:
		return errors.New(`must not contain white space or any of : \ / * ? " < > | , #`)
	}
	return nil
}

func (n *indexName) append(dst []byte, t time.Time) []byte {
	t = t.UTC()
	for _, p := range n.parts {
		if p.layout == "" {
			dst = append(dst, p.literal...)
		} else {
			dst = t.AppendFormat(dst, p.layout)
		}
	}
	return dst
}
