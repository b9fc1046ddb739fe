package encoding

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/docket-export/docket/config"
)

// defaultTimeFields are where the records of policy engines say when they were
// made: docket's own, Gatekeeper's and OPA's, and the Kubernetes audit log.
var defaultTimeFields = []string{"timestamp", "requestReceivedTimestamp"}

// latestTime is the first moment that nanoseconds since 1970 cannot tell.
var latestTime = time.Unix(0, 1<<63-1)

// timeOf is when the record was made: the first of its fields that is a string
// in the form of RFC 3339. ok is false when there is none.
func timeOf(record []byte, fields []string) (made time.Time, ok bool) {
	for _, path := range fields {
		value := gjson.GetBytes(record, path)
		if value.Type != gjson.String {
			continue
		}
		t, err := time.Parse(time.RFC3339Nano, value.Str)
		if err == nil && t.Unix() >= 0 && t.Before(latestTime) {
			return t, true
		}
	}
	return time.Time{}, false
}

// textOf is the first of the record's fields that is a string and not empty.
func textOf(record []byte, fields []string) string {
	for _, path := range fields {
		if value := gjson.GetBytes(record, path); value.Type == gjson.String && value.Str != "" {
			return value.Str
		}
	}
	return ""
}

// checkFields reports what is no path of names. What gjson would take for more
// than a name, such as a wildcard or a query, would find what nobody expects.
func checkFields(p *config.Problems, key string, paths []string) {
	for i, path := range paths {
		p.Check(key+"["+strconv.Itoa(i)+"]", fieldPath(path))
	}
}

func fieldPath(path string) error {
	for name := range strings.SplitSeq(path, ".") {
		if name == "" || strings.ContainsAny(name, `*?|#@\!{}[]()`) || plainText(name) != nil {
			return errors.New("must be field names joined by dots, such as object.kind")
		}
	}
	return nil
}
