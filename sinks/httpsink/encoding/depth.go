package encoding

import (
	"bytes"
	"fmt"

	"github.com/docket-export/docket/decision/rawjson"
	"github.com/docket-export/docket/sinks"
)

// maxBulkDepth is how deeply objects and arrays of a record may nest in a bulk
// request: what Elasticsearch's parser takes at most. OpenSearch has no such
// limit: it overflows its stack at a few thousand levels, of which anybody can put
// so many into the object that a decision is about, and never answers. Without
// this one record would hold up all others for ever.
const maxBulkDepth = 1000

// checkDepth returns a failure that names the records which nest too deeply.
func checkDepth(b *sinks.Batch) error {
	var items []int
	for i := range b.Items {
		if tooDeep(b.Items[i].Record) {
			items = append(items, i)
		}
	}
	if items == nil {
		return nil
	}
	err := fmt.Errorf("a record that nests more than %d levels deep may crash the destination", maxBulkDepth)
	return &sinks.Failure{Kind: sinks.Rejected, Items: items, Said: sinks.Answer{Text: "not sent: " + err.Error()}, Err: err}
}

// tooDeep seldom looks closely: most records have not that many brackets.
func tooDeep(record []byte) bool {
	if bytes.Count(record, []byte{'{'})+bytes.Count(record, []byte{'['}) <= maxBulkDepth {
		return false
	}
	depth := 0
	for i := 0; i < len(record); i++ {
		switch record[i] {
		case '"':
			i = rawjson.StringEnd(record, i) - 1
		case '{', '[':
			if depth++; depth > maxBulkDepth {
				return true
			}
		case '}', ']':
			depth--
		}
	}
	return false
}
