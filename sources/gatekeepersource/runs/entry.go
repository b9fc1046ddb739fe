package runs

import "github.com/docket-export/docket/decision/rawjson"

// entry is what the tally needs of a record: members that are strings.
type entry struct{ id, eventType, group, kind, name, message rawjson.Value }

// isRecord reports whether the intake stores a line: whether it is a JSON object.
func isRecord(text []byte) bool { return rawjson.KindOf(text) == rawjson.Object }

// isBlank reports a line that the intake gives no number.
func isBlank(text []byte) bool { return rawjson.SkipSpace(text, 0) == len(text) }

// entryOf reads a record, as far as it says what it is.
func entryOf(record []byte) (e entry) {
	for name, v := range rawjson.Members(record) {
		if v.Kind() != rawjson.String {
			continue
		}
		switch string(name) {
		case "id":
			e.id = v
		case "eventType":
			e.eventType = v
		case "group":
			e.group = v
		case "kind":
			e.kind = v
		case "name":
			e.name = v
		case "message":
			e.message = v
		}
		if e.id != nil && e.eventType != nil && e.group != nil && e.kind != nil && e.name != nil {
			break
		}
	}
	return e
}
