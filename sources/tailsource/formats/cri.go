package formats

import "bytes"

// criLine is one line of a container's log as container runtimes write it:
//
//	2026-01-05T10:04:07.123456789Z stdout F {"level":"info"}
//
// The time, the stream, tags of which the first is P where more of the same line
// follows and F where it ends, and the text.
type criLine struct {
	stream  stream
	partial bool
	text    []byte
}

type stream int

const (
	stdout stream = iota
	stderr
	streams
)

// parseCRI reports whether line is framed by a container runtime.
func parseCRI(line []byte) (c criLine, ok bool) {
	stamp, rest, ok := bytes.Cut(line, []byte(" "))
	if !ok || !looksLikeTime(stamp) {
		return c, false
	}
	name, rest, ok := bytes.Cut(rest, []byte(" "))
	switch {
	case !ok:
		return c, false
	case string(name) == "stdout":
		c.stream = stdout
	case string(name) == "stderr":
		c.stream = stderr
	default:
		return c, false
	}
	tags, text, _ := bytes.Cut(rest, []byte(" ")) // a line without text may end behind its tags
	tag, _, _ := bytes.Cut(tags, []byte(":"))
	switch string(tag) {
	case "P":
		c.partial = true
	case "F":
	default:
		return c, false
	}
	c.text = text
	return c, true
}

// looksLikeTime tells "2026-01-05T10:04:07Z", with any fraction and zone, from text.
func looksLikeTime(s []byte) bool {
	const form = "dddd-dd-ddTdd:dd:dd"
	if len(s) <= len(form) || len(s) > len("2026-01-05T10:04:07.123456789+00:00") {
		return false
	}
	for i := range len(form) {
		if form[i] == 'd' {
			if s[i] < '0' || s[i] > '9' {
				return false
			}
		} else if s[i] != form[i] {
			return false
		}
	}
	return true
}

// joined is what has come of a line that a runtime has cut into pieces. It is part of
// what a source keeps, as the rest may come after a restart, or in the next file. Where
// something is to be redacted a state has only the place at which the line begins: half a
// line cannot be redacted.
type joined struct {
	Text   []byte `json:"text,omitempty"`
	Length int64  `json:"length,omitempty"` // of a line over the limit, of which Text is the beginning
	Begun  Origin `json:"begun,omitzero"`   // where its first piece is
	Lost   bool   `json:"lost,omitempty"`   // what had come is gone: what comes of it is passed over
}

// clear forgets the line, and keeps its room for the next.
func (j *joined) clear() {
	*j = joined{Text: j.Text[:0]}
	if cap(j.Text) > keptBuffer {
		j.Text = nil
	}
}

func (j *joined) empty() bool { return len(j.Text) == 0 && j.Length == 0 && !j.Lost }

// withoutText is what a state may have of the line where it is to be redacted.
func (j *joined) withoutText() joined {
	switch {
	case j.empty():
		return joined{}
	case j.Lost:
		return joined{Lost: true}
	case j.Begun == Origin{}: // an earlier docket has not written where it began
		return joined{Begun: nowhere}
	}
	return joined{Begun: j.Begun}
}

// nowhere is where a line began that cannot be read again.
var nowhere = Origin{Offset: -1}

// isElsewhere reports whether the text of the line is to be read again.
func (j *joined) isElsewhere() bool { return j.empty() && j.Begun != Origin{} }

// add appends a piece; length is 0, or that of a piece of which text is the beginning.
func (j *joined) add(text []byte, length int64, limit int) {
	total := int64(len(j.Text)) + max(int64(len(text)), length)
	switch {
	case j.Length > 0:
		j.Length += max(int64(len(text)), length)
	case total > int64(limit):
		j.Length = total
		j.Text = append(j.Text, text[:min(len(text), max(0, prefixBytes-len(j.Text)))]...)
		j.Text = bytes.Clone(j.Text[:min(len(j.Text), prefixBytes)])
	default:
		j.Text = append(j.Text, text...)
	}
}
