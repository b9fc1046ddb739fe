package decisionlog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"unicode/utf8"
)

// object is a JSON object in the making: its members in the order in which their
// names came first.
type object []member

// member has either a value or members of its own.
type member struct {
	key   string
	value json.RawMessage // nil: a group
	group object
}

// clone copies o and its groups. Values do not change, so copies share them.
func (o object) clone() object {
	if o == nil {
		return nil
	}
	c := make(object, len(o), len(o)+4) // room for a few attributes of the record itself
	for i, m := range o {
		m.group = m.group.clone()
		c[i] = m
	}
	return c
}

// at returns the member of that name, made if there is none.
func (o *object) at(key string) *member {
	for i := range *o {
		if (*o)[i].key == key {
			return &(*o)[i]
		}
	}
	*o = append(*o, member{key: key})
	return &(*o)[len(*o)-1]
}

// group returns the group of that name, in place of a value if there is one.
func (o *object) group(key string) *object {
	m := o.at(key)
	m.value = nil
	return &m.group
}

// add adds an attribute as slog wants it: resolved, without empty ones, and with
// the members of a group without a name in place of that group.
func (o *object) add(a slog.Attr) {
	a.Value = a.Value.Resolve()
	if a.Value.Kind() != slog.KindGroup {
		if !a.Equal(slog.Attr{}) {
			o.set(a.Key, encode(a.Value))
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

func (o *object) set(key string, value json.RawMessage) {
	m := o.at(key)
	m.value, m.group = value, nil
}

// addDetails adds what the program itself calls details: the members of a group
// or JSON object, or else the value as a member of that name.
func (o *object) addDetails(v slog.Value) {
	if v.Kind() == slog.KindGroup {
		o.add(slog.Attr{Value: v})
		return
	}
	value := encode(v)
	if string(value) == "null" {
		return
	}
	members, ok := membersOf(value)
	if !ok {
		o.set("details", value)
		return
	}
	for _, m := range members {
		o.set(m.key, m.value)
	}
}

// membersOf returns the members of a JSON object, whose text stays as it is. It
// is false for another value.
func membersOf(value json.RawMessage) (members object, ok bool) {
	dec := json.NewDecoder(bytes.NewReader(value))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return nil, false
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, false
		}
		var m member
		m.key, _ = key.(string)
		if err := dec.Decode(&m.value); err != nil {
			return nil, false
		}
		members = append(members, m)
	}
	return members, true
}

// encode returns o as JSON, without the groups that have nothing in them; nil if
// nothing is left.
func (o object) encode() json.RawMessage {
	if len(o) == 0 {
		return nil
	}
	if text := o.append(nil); string(text) != "{}" {
		return text
	}
	return nil
}

func (o object) append(dst []byte) []byte {
	dst = append(dst, '{')
	empty := true
	for _, m := range o {
		before := len(dst)
		if !empty {
			dst = append(dst, ',')
		}
		dst = append(append(dst, encodeAny(m.key)...), ':')
		if m.value != nil {
			dst = append(dst, m.value...)
			empty = false
			continue
		}
		group := len(dst)
		if dst = m.group.append(dst); string(dst[group:]) == "{}" {
			dst = dst[:before]
			continue
		}
		empty = false
	}
	return append(dst, '}')
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
