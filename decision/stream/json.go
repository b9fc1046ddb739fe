package stream

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// object is a JSON object in the order of its members. Unlike the decoding of
// encoding/json into a struct it tells "ack" from "Ack" and sees duplicates.
type object []member

type member struct {
	name  string
	value json.RawMessage
}

// parseObject reads data, which must be one JSON object.
func parseObject(data []byte) (object, error) {
	if !json.Valid(data) {
		return nil, errors.New("not valid JSON")
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	open, err := dec.Token()
	if err != nil {
		return nil, err
	}
	if open != json.Delim('{') {
		return nil, errors.New("not a JSON object")
	}
	var o object
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, err
		}
		m := member{name: name.(string)} // the grammar allows nothing else here
		if err := dec.Decode(&m.value); err != nil {
			return nil, err
		}
		o = append(o, m)
	}
	return o, nil
}

// find returns the first member of that name and how many there are.
func (o object) find(name string) (value json.RawMessage, n int) {
	for _, m := range o {
		if m.name != name {
			continue
		}
		if n++; n == 1 {
			value = m.value
		}
	}
	return value, n
}

// one returns the value of a member that must stand exactly once.
func (o object) one(name string) (json.RawMessage, error) {
	value, n := o.find(name)
	switch n {
	case 0:
		return nil, fmt.Errorf("%s is missing", name)
	case 1:
		return value, nil
	}
	return nil, fmt.Errorf("%s stands %d times", name, n)
}

// text returns a member that must be a string.
func (o object) text(name string) (string, error) {
	value, err := o.one(name)
	if err != nil {
		return "", err
	}
	var s string
	if value[0] != '"' || json.Unmarshal(value, &s) != nil {
		return "", fmt.Errorf("%s must be a string, not %s", name, excerpt(value))
	}
	return s, nil
}

// object returns a member that must be an object.
func (o object) object(name string) (object, error) {
	value, err := o.one(name)
	if err != nil {
		return nil, err
	}
	inner, err := parseObject(value)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return inner, nil
}

// number returns a member that must be a whole number.
func (o object) number(name string) (uint64, error) {
	value, err := o.one(name)
	if err != nil {
		return 0, err
	}
	n, err := wholeNumber(value)
	if err != nil {
		return 0, fmt.Errorf("%s must be a whole number, not %s", name, excerpt(value))
	}
	return n, nil
}

// wholeNumber reads a JSON number that is written as an integer. It stays below
// 1<<63 so that counting on from it cannot overflow.
func wholeNumber(value json.RawMessage) (uint64, error) {
	return strconv.ParseUint(string(value), 10, 63)
}

func appendUint(dst []byte, n uint64) []byte { return strconv.AppendUint(dst, n, 10) }

// appendString appends s as a JSON string. What is not UTF-8 is replaced.
func appendString(dst []byte, s string) []byte {
	if plainText(s) {
		dst = append(dst, '"')
		dst = append(dst, s...)
		return append(dst, '"')
	}
	var quoted bytes.Buffer
	enc := json.NewEncoder(&quoted)
	enc.SetEscapeHTML(false) // people read these lines
	if err := enc.Encode(s); err != nil {
		panic("stream: a string cannot fail to encode: " + err.Error())
	}
	return append(dst, bytes.TrimSuffix(quoted.Bytes(), []byte("\n"))...)
}

// plainText reports whether s needs no escape in JSON.
func plainText(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// maxText bounds the texts for people that messages carry.
const maxText = 1 << 10

// appendText is appendString of at most maxText bytes of s.
func appendText(dst []byte, s string) []byte {
	if len(s) > maxText {
		s = strings.ToValidUTF8(s[:maxText], "") + "..."
	}
	return appendString(dst, s)
}
