package decision

import (
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/docket-export/docket/decision/rawjson"
)

// maxMembers bounds the members that are read of one object: an object with more has
// none. No engine writes a tenth of them.
const maxMembers = 4096

// members are those of one JSON object, in their order.
type members []member

type member struct {
	name  []byte
	value rawjson.Value
}

// membersOf reads the object that text is; nil for anything else.
func membersOf(text []byte) members {
	text = text[rawjson.SkipSpace(text, 0):]
	if rawjson.Value(text).Kind() != rawjson.Object {
		return nil
	}
	m := make(members, 0, 32)
	for name, value := range rawjson.Members(text) {
		if len(m) == maxMembers {
			return nil
		}
		m = append(m, member{name, value})
	}
	return m
}

// get returns the value of the last member called name, nil where there is none.
func (m members) get(name string) rawjson.Value {
	for _, member := range slices.Backward(m) {
		if string(member.name) == name {
			return member.value
		}
	}
	return nil
}

// in returns the members of the object called name.
func (m members) in(name string) members { return membersOf(m.get(name)) }

// is reports whether name is the string s.
func (m members) is(name, s string) bool { return string(m.get(name).Text()) == s }

// has reports whether name is there and not null.
func (m members) has(name string) bool {
	kind := m.get(name).Kind()
	return kind != rawjson.Invalid && kind != rawjson.Null
}

// text returns what the first of names says that is a string and not empty.
func (m members) text(names ...string) string {
	for _, name := range names {
		if s := textOf(m.get(name)); s != "" {
			return s
		}
	}
	return ""
}

// textOf returns what raw says in UTF-8, "" when it is no string.
func textOf(raw rawjson.Value) string {
	var few [256]byte // on the stack
	return string(raw.AppendText(few[:0]))
}

// time returns the first of names that is a time of RFC 3339.
func (m members) time(names ...string) time.Time {
	for _, name := range names {
		t, err := time.Parse(time.RFC3339Nano, string(m.get(name).Text()))
		if t = t.UTC(); err == nil && t.Year() >= 1 && t.Year() <= lastYear {
			return t
		}
	}
	return time.Time{}
}

// epoch returns the time that raw, a number of seconds since 1970, stands for. As a
// double it is exact to the microsecond.
func epoch(raw []byte) time.Time {
	seconds, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || seconds <= 0 || seconds > maxSeconds {
		return time.Time{}
	}
	return time.UnixMicro(int64(math.Round(seconds * 1e6))).UTC()
}

// RFC 3339 has no times beyond.
const (
	lastYear   = 9999
	maxSeconds = 253402300799
)
