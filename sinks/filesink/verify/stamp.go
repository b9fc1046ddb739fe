package verify

import (
	"bytes"
	"strconv"
	"time"
)

// same reports whether line is the record that want says, with or without a stamp:
// the member "_docket" that a sink appends where it is set to. A stamp has to say
// what is known of the record. line may be that of another export and want.Data
// have the stamp.
func same(line []byte, queue string, want Record) bool {
	if bytes.Equal(line, want.Data) {
		return true
	}
	if s, ok := parseStamp(line, queue, want.Seq); ok {
		return s.isFrom(want) && s.leaves(want.Data)
	}
	s, ok := parseStamp(want.Data, queue, want.Seq)
	return ok && s.leaves(line)
}

// stamp is what a sink appended to an object.
type stamp struct {
	before, after    []byte // the object without it
	source, received string
}

// parseStamp takes a line apart that ends with the stamp of a record.
func parseStamp(line []byte, queue string, seq uint64) (s stamp, ok bool) {
	number := strconv.FormatUint(seq, 10)
	member := `"_docket":{"id":"` + queue + "-" + number + `","seq":` + number + `,"source":"`
	at := bytes.LastIndex(line, []byte(member))
	if at < 0 {
		return stamp{}, false
	}
	s.before = bytes.TrimSuffix(line[:at], []byte(","))
	source, rest, ok1 := bytes.Cut(line[at+len(member):], []byte(`","received":"`))
	received, after, ok2 := bytes.Cut(rest, []byte(`"}`))
	s.source, s.received, s.after = string(source), string(received), after
	return s, ok1 && ok2
}

// leaves reports whether the object without the stamp is data.
func (s stamp) leaves(data []byte) bool {
	return len(data) == len(s.before)+len(s.after) && bytes.HasPrefix(data, s.before) && bytes.HasSuffix(data, s.after)
}

// isFrom reports whether the stamp agrees with what is known of the record.
func (s stamp) isFrom(r Record) bool {
	return (r.Source == "" || r.Source == s.source) &&
		(r.Received.IsZero() || r.Received.UTC().Format(time.RFC3339Nano) == s.received)
}
