package encoding

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// indexName is the name of an index with parts of a time in it.
type indexName struct{ parts []indexPart }

// indexPart is literal text and a time behind it. Either may be empty.
type indexPart struct {
	literal string
	layout  string // for time.Format
}

// maxIndexName is Elasticsearch's own limit, in bytes.
const maxIndexName = 255

// What may stand in braces: parts of a time, and signs between them.
var (
	datePattern = regexp.MustCompile(`^[._-]*((yyyy|MM|dd|HH)[._-]*)+$`)
	dateLayout  = strings.NewReplacer("yyyy", "2006", "MM", "01", "dd", "02", "HH", "15")
)

// parseIndexName reads a name such as decisions-{yyyy.MM.dd}.
func parseIndexName(text string) (*indexName, error) {
	n := &indexName{}
	for rest := text; rest != ""; {
		literal, after, dated := strings.Cut(rest, "{")
		date, next, closed := strings.Cut(after, "}")
		if dated && (!closed || !datePattern.MatchString(date)) || strings.Contains(literal, "}") {
			return nil, errors.New("must have time fields in braces, yyyy, MM, dd or HH with . - or _ between them: decisions-{yyyy.MM.dd}")
		}
		n.parts = append(n.parts, indexPart{literal, dateLayout.Replace(date)})
		rest = next
	}
	return n, checkIndexName(string(n.append(nil, time.Unix(0, 0))))
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
		dst = t.AppendFormat(append(dst, p.literal...), p.layout)
	}
	return dst
}
