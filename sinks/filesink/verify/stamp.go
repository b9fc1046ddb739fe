package verify

import (
	"bytes"
	"strconv"
	"time"

	"github.com/google/uuid"
)

// same reports whether line is the record that want says, with or without a stamp:
// the member "_docket" that a sink appends where it is set to. A stamp has to say
// what is known of the record. line may be that of another export and want.Data
// have the stamp.
func same(line []byte, want Record) bool {
	if bytes.Equal(line, want.Data) {
		return true
	}
	if s, ok := parseStamp(line, want.Seq); ok {
		return s.isFrom(want) && s.leaves(want.Data)
	}
	s, ok := parseStamp(want.Data, want.Seq)
	return ok && s.leaves(line)
}

// stamp is what a sink appended to an object.
type stamp struct {
	before, after    []byte // the object without it
	source, received string
}

// parseStamp takes a line apart that ends with the stamp of a record, whichever incarnation of the
// queue has stored it.
func parseStamp(line []byte, seq uint64) (s stamp, ok bool) {
	number := strconv.FormatUint(seq, 10)
	begin, end := []byte(`"_docket":{"id":"`), []byte("-"+number+`","seq":`+number+`,"source":"`)
	at := bytes.LastIndex(line, begin)
	if at < 0 {
		return stamp{}, false
	}
	id, rest, ok := bytes.Cut(line[at+len(begin):], end)
	if !ok || uuid.Validate(string(id)) != nil {
		return stamp{}, false
	}
	s.before = bytes.TrimSuffix(line[:at], []byte(","))
	source, rest, ok1 := bytes.Cut(rest, []byte(`","received":"`))
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
