package decisionlog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/docket-export/docket/decision"
	"github.com/docket-export/docket/decision/rawjson"
)

// fields has the index of each field of a Record by its JSON name.
var fields = fieldNames()

func fieldNames() map[string]int {
	names := make(map[string]int)
	t := reflect.TypeFor[decision.Record]()
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		names[name] = i
	}
	return names
}

// setField sets the field of r that has the JSON name key to a value that is JSON. It is
// false, and r is as it was, when there is none or the value does not fit it.
func setField(r *decision.Record, key string, value json.RawMessage) bool {
	i, ok := fields[key]
	if !ok || string(value) == "null" {
		return false
	}
	changed := *r
	field := reflect.ValueOf(&changed).Elem().Field(i)
	if _, isJSON := field.Interface().(json.RawMessage); isJSON && value[0] != '{' && value[0] != '[' {
		return false // a text that is called object is no object
	}
	decoded := reflect.New(field.Type()) // maps would be shared with other handlers
	if json.Unmarshal(value, decoded.Interface()) != nil {
		return false
	}
	if field.Set(decoded.Elem()); changed.Validate() != nil {
		return false
	}
	*r = changed
	return true
}

// object is a JSON object in the making: its members are json.RawMessage or object.
type object map[string]any

// clone copies o and its groups. Values do not change, so copies share them.
func (o object) clone() object {
	c := maps.Clone(o)
	for key, v := range c {
		if group, ok := v.(object); ok {
			c[key] = group.clone()
		}
	}
	return c
}

// group returns the group of that name, in place of a value if there is one.
func (o object) group(key string) object {
	group, ok := o[key].(object)
	if !ok {
		group = make(object)
		o[key] = group
	}
	return group
}

// add adds an attribute as slog wants it: resolved, without empty ones, and with
// the members of a group without a name in place of that group.
func (o object) add(a slog.Attr) {
	a.Value = a.Value.Resolve()
	if a.Value.Kind() != slog.KindGroup {
		if !a.Equal(slog.Attr{}) {
			o[a.Key] = encode(a.Value)
		}
		return
	}
	in := o
	if a.Key != "" && len(a.Value.Group()) > 0 {
		in = o.group(a.Key)
	}
	for _, member := range a.Value.Group() {
		in.add(member)
	}
}

// addDetails adds what the program itself calls details: the members of a group
// or JSON object, or else the value as a member of that name.
func (o object) addDetails(v slog.Value) {
	if v.Kind() == slog.KindGroup {
		o.add(slog.Attr{Value: v})
		return
	}
	switch value := encode(v); value[0] {
	case '{':
		for name, member := range rawjson.Members(value) {
			o[string(name)] = json.RawMessage(member)
		}
	case 'n': // null
	default:
		o["details"] = value
	}
}

// encode returns o as JSON; nil if nothing is in it.
func (o object) encode() json.RawMessage {
	if o.prune(); len(o) == 0 {
		return nil
	}
	return encodeAny(o)
}

// prune removes the groups that have nothing in them.
func (o object) prune() {
	for key, v := range o {
		if group, ok := v.(object); ok {
			if group.prune(); len(group) == 0 {
				delete(o, key)
			}
		}
	}
}

// encode returns a value, resolved and not a group, as JSON, the way the JSON
// handler of slog writes it: durations as nanoseconds, errors by their text.
func encode(v slog.Value) json.RawMessage {
	switch v.Kind() {
	case slog.KindDuration:
		return encodeAny(v.Duration().Nanoseconds())
	case slog.KindAny:
		if err, ok := v.Any().(error); ok {
			if _, ok := err.(json.Marshaler); !ok {
				return encodeAny(errorText{err})
			}
		}
	}
	return encodeAny(v.Any())
}

// errorText is written as the text of its error, taken where a panic is caught.
type errorText struct{ error }

func (e errorText) MarshalText() ([]byte, error) { return []byte(e.Error()), nil }

// encodeAny returns v as JSON in UTF-8. A value that cannot be encoded, or that
// panics, becomes a text that says so: the decision is worth more than it.
func encodeAny(v any) (text json.RawMessage) {
	defer func() {
		if r := recover(); r != nil {
			text = encodeAny(fmt.Sprintf("!PANIC: %v", r))
		}
	}()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // as elsewhere in a record
	if err := enc.Encode(v); err != nil {
		return encodeAny("!ERROR: " + err.Error())
	}
	text = bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	if !utf8.Valid(text) { // of a RawMessage
		text = bytes.ToValidUTF8(text, []byte("\ufffd"))
	}
	return text
}
