package deadletter

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
)

const (
	version = 2
	// maxLine bounds what is read as one line: the longest record that docket
	// takes, with room for its stamp and for the answer of its destination.
	maxLine = 32 << 20
	// sumLength is that of a checksum and the space behind it.
	sumLength = 9
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// line is what the JSON of a line says.
type line struct {
	Version int      `json:"version,omitempty"`
	Redrive []uint64 `json:"redrive,omitempty"`
	Remove  []uint64 `json:"remove,omitempty"`
	Letter
}

// recordMember stands before the record. Within a string of JSON a quote has a backslash before it,
// so what comes before the first one is the rest of the object.
var recordMember = []byte(`,"record":`)

// append appends l to b, with its checksum and a newline.
func (l *line) append(b []byte) ([]byte, error) {
	object, err := json.Marshal(l)
	if err != nil {
		return nil, err
	}
	if l.Seq > 0 {
		if bytes.IndexByte(l.Record, '\n') >= 0 {
			return nil, errors.New("it has a newline, which no record may have")
		}
		object = append(append(append(object[:len(object)-1], recordMember...), l.Record...), '}')
	}
	if len(object) > maxLine-sumLength-1 {
		return nil, fmt.Errorf("its letter would have %d bytes, at most %d are kept", len(object), maxLine-sumLength-1)
	}
	b = fmt.Appendf(b, "%08x ", crc32.Checksum(object, castagnoli))
	return append(append(b, object...), '\n'), nil
}

var errLine = errors.New("not a line of a log of dead letters")

// parseLine reads a line without its newline, whose record is a part of b.
func parseLine(b []byte) (l line, err error) {
	if len(b) < sumLength || b[sumLength-1] != ' ' {
		return l, errLine
	}
	sum, err := strconv.ParseUint(string(b[:sumLength-1]), 16, 32)
	object := b[sumLength:]
	if err != nil || crc32.Checksum(object, castagnoli) != uint32(sum) {
		return l, errLine
	}
	head, record, isLetter := bytes.Cut(object, recordMember)
	if isLetter {
		record, isLetter = bytes.CutSuffix(record, []byte("}"))
		if head = append(bytes.Clone(head), '}'); !isLetter {
			return l, errLine
		}
	}
	if err := json.Unmarshal(head, &l); err != nil || isLetter != (l.Seq > 0) {
		return l, errLine
	}
	l.Record = record
	return l, nil
}
