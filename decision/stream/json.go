package stream

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/docket-export/docket/decision/rawjson"
)

// object is a JSON object in the order of its members. Unlike the decoding of
// encoding/json into a struct it tells "ack" from "Ack" and sees duplicates.
type object []member

type member struct {
	name  string
	value rawjson.Value
}

// parseObject reads data, which must be one JSON object.
func parseObject(data []byte) (object, error) {
	if !json.Valid(data) {
		return nil, errors.New("not valid JSON")
	}
	if rawjson.Value(skipSpace(data)).Kind() != rawjson.Object {
		return nil, errors.New("not a JSON object")
	}
	var o object
	for name, value := range rawjson.Members(data) {
		o = append(o, member{string(name), value})
	}
	return o, nil
}

// find returns the first member of that name and how many there are.
func (o object) find(name string) (value rawjson.Value, n int) {
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
func (o object) one(name string) (rawjson.Value, error) {
	value, n := o.find(name)
	switch n {
	case 0:
		return nil, fmt.Errorf("%s is missing", name)
	case 1:
		return value, nil
	}
	return nil, fmt.Errorf("%s occurs %d times", name, n)
}

// text returns a member that must be a string.
func (o object) text(name string) (string, error) {
	value, err := o.one(name)
	if err != nil {
		return "", err
	}
	if value.Kind() != rawjson.String {
		return "", fmt.Errorf("%s must be a string, not %s", name, excerpt(value))
	}
	return string(value.AppendText(nil)), nil
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
func wholeNumber(value rawjson.Value) (uint64, error) {
	return strconv.ParseUint(string(value), 10, 63)
}

func appendUint(dst []byte, n uint64) []byte { return strconv.AppendUint(dst, n, 10) }

// maxText bounds the texts for people that messages carry.
const maxText = 1 << 10

// appendText appends at most maxText bytes of s as a JSON string.
func appendText(dst []byte, s string) []byte {
	if len(s) > maxText {
		s = strings.ToValidUTF8(s[:maxText], "") + "..."
	}
	return rawjson.AppendString(dst, s)
}
