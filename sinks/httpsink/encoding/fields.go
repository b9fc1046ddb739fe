package encoding

import (
	"strings"
	"time"

	"github.com/docket-export/docket/decision"
	"github.com/docket-export/docket/decision/rawjson"
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
		text, found := stringAt(record, path)
		if !found {
			continue
		}
		t, err := time.Parse(time.RFC3339Nano, text)
		if err == nil && t.Unix() >= 0 && t.Before(latestTime) {
			return t, true
		}
	}
	return time.Time{}, false
}

// textOf is the first of the record's fields that is a string and not empty.
func textOf(record []byte, fields []string) string {
	for _, path := range fields {
		if text, found := stringAt(record, path); found && text != "" {
			return text
		}
	}
	return ""
}

// stringAt returns the string at path in record, or the field of its normalized form
// that path names.
func stringAt(record []byte, path string) (text string, found bool) {
	if name, ok := strings.CutPrefix(path, decision.NormalizedPrefix); ok {
		form, known := decision.Normalize(record)
		return form.Field(name), known
	}
	value := rawjson.Get(record, path)
	return string(value.Text()), value.Kind() == rawjson.String
}
