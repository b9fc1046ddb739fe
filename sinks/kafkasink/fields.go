package kafkasink

import (
	"github.com/docket-export/docket/decision"
	"github.com/docket-export/docket/decision/rawjson"
)

// appendField appends the value at path to dst: the text of a string, anything else
// as it came, so that 1.0 stays 1.0. It returns false when it is missing or null.
func appendField(dst, record []byte, path string) ([]byte, bool) {
	value := rawjson.Get(record, path)
	switch value.Kind() {
	case rawjson.Invalid, rawjson.Null:
		return dst, false
	case rawjson.String:
		return value.AppendText(dst), true
	default:
		return append(dst, value...), true
	}
}

// form is the normalized form of the record that an encoder is at, made when one of
// its fields is asked for.
type form struct {
	decision.Normalized
	known bool
}

// field returns the field called name of record's form, false when it is empty.
func (f *form) field(record []byte, name string) (string, bool) {
	if !f.known {
		f.Normalized, _ = decision.Normalize(record) // of an unknown record every field is empty
		f.known = true
	}
	text := f.Field(name)
	return text, text != ""
}
