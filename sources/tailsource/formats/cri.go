package formats

import (
	"bytes"

	"github.com/docket-export/docket/decision/rawjson"
	"github.com/docket-export/docket/sources/linecut"
)

// frame is one line of a container's log as container runtimes write it, by the CRI
//
//	2026-01-05T10:04:07.123456789Z stdout F {"level":"info"}
//
// with the time, the stream, tags of which the first is P where more of the same line
// follows and F where it ends, and the text; or by Docker
//
//	{"log":"{\"level\":\"info\"}\n","stream":"stdout","time":"2026-01-05T10:04:07.123456789Z"}
//
// where more of the same line follows unless log ends with a newline.
type frame struct {
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

// parseFrame reports whether line is framed by a container runtime.
func parseFrame(line []byte) (f frame, ok bool) {
	if isObject(line) {
		return parseDocker(line)
	}
	return parseCRI(line)
}

func parseCRI(line []byte) (f frame, ok bool) {
	stamp, rest, ok := bytes.Cut(line, []byte(" "))
	if !ok || !looksLikeTime(stamp) {
		return f, false
	}
	name, rest, ok := bytes.Cut(rest, []byte(" "))
	if !ok {
		return f, false
	}
	if f.stream, ok = streamOf(name); !ok {
		return f, false
	}
	tags, text, _ := bytes.Cut(rest, []byte(" ")) // a line without text may end behind its tags
	tag, _, _ := bytes.Cut(tags, []byte(":"))
	switch string(tag) {
	case "P":
		f.partial = true
	case "F":
	default:
		return f, false
	}
	f.text = text
	return f, true
}

func streamOf(name []byte) (s stream, ok bool) {
	switch string(name) {
	case "stdout":
		return stdout, true
	case "stderr":
		return stderr, true
	}
	return 0, false
}

// maxDocker is how long a line of Docker's may be: 16 KiB of a log, where each byte may be
// escaped as six, and what stands around it.
const maxDocker = 128 << 10

// parseDocker takes an object for Docker's framing if it has what Docker writes, and nothing
// else.
func parseDocker(line []byte) (f frame, ok bool) {
	if !bytes.HasPrefix(bytes.TrimLeft(line, "{ \t"), []byte(`"log"`)) || rawjson.KindOf(line) != rawjson.Object {
		return f, false
	}
	var isLog, isStream, isTime bool
	for name, value := range rawjson.Members(line) {
		switch string(name) {
		case "log":
			isLog = value.Kind() == rawjson.String
			f.text = value.AppendText(nil)
		case "stream":
			f.stream, isStream = streamOf(value.Text())
		case "time":
			isTime = looksLikeTime(value.Text())
		case "attrs": // labels of the container
		default:
			return f, false
		}
	}
	text, ended := bytes.CutSuffix(f.text, []byte("\n"))
	f.text, f.partial = text, !ended
	return f, isLog && isStream && isTime
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
// what a source keeps, as the rest may come after a restart, or in the next file.
type joined struct {
	Text   []byte `json:"text,omitempty"`
	Length int64  `json:"length,omitempty"` // of a line over the limit, of which Text is the beginning
	Lost   bool   `json:"lost,omitempty"`   // what had come was not kept: what comes of it is passed over

	told bool // that it is lost
}

// clear forgets the line, and keeps its room for the next.
func (j *joined) clear() {
	*j = joined{Text: j.Text[:0]}
	if cap(j.Text) > keptBuffer {
		j.Text = nil
	}
}

func (j *joined) empty() bool { return len(j.Text) == 0 && j.Length == 0 && !j.Lost }

// add appends a piece; length is 0, or that of a piece of which text is the beginning.
func (j *joined) add(text []byte, length int64, limit int) {
	total := int64(len(j.Text)) + max(int64(len(text)), length)
	switch {
	case j.Length > 0:
		j.Length += max(int64(len(text)), length)
	case total > int64(limit):
		j.Length = total
		j.Text = append(j.Text, text[:min(len(text), max(0, linecut.MaxPrefix-len(j.Text)))]...)
		j.Text = bytes.Clone(j.Text[:min(len(j.Text), linecut.MaxPrefix)])
	default:
		j.Text = append(j.Text, text...)
	}
}
