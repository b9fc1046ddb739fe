package delta

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"

	"github.com/docket-export/docket/decision/rawjson"
)

// key tells violations apart. 128 bits of SHA-256: nobody can make a violation that
// hides behind another.
type key [16]byte

// violation is a line that was understood.
type violation struct {
	key    key
	line   []byte // without white space around it
	values [len(identity)]rawjson.Value
}

// identity are the members of Gatekeeper's export record that make a violation what it
// is, in that record's order. Labels, annotations and details may change while the
// violation stands; the API version of the constraint may, too.
var identity = [...]string{
	"group", "kind", "name", "message", "enforcementAction",
	"resourceGroup", "resourceAPIVersion", "resourceKind", "resourceNamespace", "resourceName",
}

// maxBrackets is how many a line may have: as many as a record may nest, and some are
// left for the record around it. It bounds what reading the line takes of the stack.
const maxBrackets = 9_990

var errNoObject = errors.New("delta: the line is not a JSON object in UTF-8, or nests too deep")

// parse reads a line; the violation aliases it. scratch may be overwritten.
func parse(line []byte, scratch *[]byte) (v violation, err error) {
	v.line = bytes.Trim(line, " \t\r")
	if tooDeep(v.line) || rawjson.KindOf(v.line) != rawjson.Object {
		return v, errNoObject
	}
	v.values = identify(v.line)
	v.key = keyOf(v.values, scratch)
	return v, nil
}

// identify finds the members that identify the violation in an object.
func identify(object []byte) (values [len(identity)]rawjson.Value) {
	for name, value := range rawjson.Members(object) {
		for i := range identity {
			if string(name) == identity[i] {
				values[i] = value
			}
		}
	}
	return values
}

// keyOf makes the key of what identifies a violation. scratch may be overwritten.
func keyOf(values [len(identity)]rawjson.Value, scratch *[]byte) (k key) {
	text := (*scratch)[:0]
	for _, value := range values {
		s := value.Bytes() // unescaped: how a text is written is no part of it
		text = binary.AppendUvarint(text, uint64(len(s)))
		text = append(text, s...)
	}
	*scratch = text
	sum := sha256.Sum256(text)
	return key(sum[:len(k)])
}

func tooDeep(line []byte) bool {
	return len(line) > maxBrackets && bytes.Count(line, []byte{'['})+bytes.Count(line, []byte{'{'}) > maxBrackets
}

// keyAt is where the hexadecimal digits of the key begin in an entry.
const keyAt = len(`{"key":"`)

// appendEntry appends what is kept of the violation: the members that identify it, in
// the form that they have in a record after its first members.
func (v *violation) appendEntry(dst []byte, opened string) []byte {
	dst = append(dst, `{"key":"`...)
	dst = hex.AppendEncode(dst, v.key[:])
	dst = append(append(dst, `","opened":`...), opened...)
	dst = append(dst, `,"violation":{`...)
	first := true
	for i, value := range v.values {
		if len(value.Bytes()) == 0 {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(append(dst, '"'), identity[i]...)
		dst = append(append(dst, `":`...), value...)
	}
	return append(dst, "}}\n"...)
}

// entryKey is the key of an entry, and whether it has one.
func entryKey(entry []byte) (k key, ok bool) {
	end := keyAt + hex.EncodedLen(len(k))
	if len(entry) < end {
		return k, false
	}
	_, err := hex.Decode(k[:], entry[keyAt:end])
	return k, err == nil
}

// entryOpened is the run in which the violation of an entry was opened, in JSON.
func entryOpened(entry []byte) string { return string(rawjson.Member(entry, "opened")) }

// appendRecord appends the record of a standing violation with all of its line; opened
// may be empty.
func (v *violation) appendRecord(dst []byte, eventType, run, opened string) []byte {
	dst = appendHead(dst, eventType, run)
	dst = append(dst, `"key":"`...)
	dst = hex.AppendEncode(dst, v.key[:])
	dst = append(dst, '"')
	if opened != "" {
		dst = append(append(dst, `,"opened":`...), opened...)
	}
	dst = append(append(dst, `,"violation":`...), v.line...)
	return append(dst, "}\n"...)
}

// appendHead begins a record; run is a JSON string.
func appendHead(dst []byte, eventType, run string) []byte {
	dst = append(append(dst, `{"eventType":"`...), eventType...)
	dst = append(append(dst, `","id":`...), run...)
	return append(dst, ',')
}
