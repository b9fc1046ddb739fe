// Package stream is the wire form of docket stream v1: the few messages that a
// producer and the exporter exchange beside the records themselves.
//
//	-> {"docket":{"version":1,"producer":"6f0c...","next":1}}   Hello
//	<- {"docket":{"version":1,"acked":0}}                       Answer
//	-> {...record 1...}
//	-> {...record 2...}
//	<- {"ack":2}                                                Ack
//	<- {"refused":{"seq":3,"reason":"InvalidJSON",...}}         Refused
//	<- {"docket":{"version":1,"error":"..."}}                   Closing
//
// Each message is one line. Members that are not known are ignored, so that version 1
// can grow; a known member that occurs twice is an error, because two readers could
// understand it differently. Numbers must be written as plain integers: 1, not 1.0 or
// 1e0.
package stream

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"github.com/docket-export/docket/decision/rawjson"
)

// Version is the only version of the protocol there is.
const Version = 1

// ErrVersion says that a hello is of another version.
var ErrVersion = errors.New("is not supported")

// MaxHello bounds a hello line, its newline not counted. The longest sensible
// one has 200 bytes; the rest is room for members yet to come.
const MaxHello = 4 << 10

// MaxProducer bounds the name of a producer.
const MaxProducer = 128

// ErrNotHello says that a line is not meant as a hello: it is an ordinary line.
var ErrNotHello = errors.New("not a hello")

// Hello opens a connection in acknowledged mode.
type Hello struct {
	Producer string // see CheckProducer
	Next     uint64 // number of the line after the hello, at least 1
}

// Append appends h as a line, newline included.
func (h Hello) Append(dst []byte) []byte {
	dst = appendUint(append(dst, `{"docket":{"version":`...), Version)
	dst = rawjson.AppendString(append(dst, `,"producer":`...), h.Producer)
	dst = appendUint(append(dst, `,"next":`...), h.Next)
	return append(dst, "}}\n"...)
}

// CheckProducer returns an error unless name can name a producer: 1 to
// MaxProducer bytes of letters, digits and . _ : / -
func CheckProducer(name string) error {
	if name == "" {
		return errors.New("producer must not be empty")
	}
	if len(name) > MaxProducer {
		return fmt.Errorf("producer must have at most %d bytes, not %d", MaxProducer, len(name))
	}
	for i := range len(name) {
		if !producerByte(name[i]) {
			return fmt.Errorf("producer must consist of A-Z a-z 0-9 . _ : / - and has %q at byte %d", name[i], i+1)
		}
	}
	return nil
}

func producerByte(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return true
	}
	return c == '.' || c == '_' || c == ':' || c == '/' || c == '-'
}

// IsHello reports whether line, without its newline, has the form of a hello, whether or not its
// values make sense. A hello is an object of at most MaxHello bytes whose single member "docket" is
// an object with a "version". The test of a line that does not begin like one takes a few
// nanoseconds.
func IsHello(line []byte) bool {
	if !beginsLikeHello(line) || len(line) > MaxHello {
		return false
	}
	body, err := helloBody(line)
	if err != nil {
		return false
	}
	_, n := body.find("version")
	return n > 0
}

// ParseHello reads the first line of a connection, without its newline. The error is ErrNotHello
// for a line that is not meant as a hello: it is a record of plain mode. Any other error tells the
// producer what is wrong with the hello. A line that begins {"docket":{ is meant as one, unless it
// is a whole object with other members beside "docket".
func ParseHello(line []byte) (Hello, error) {
	if !beginsLikeHello(line) {
		return Hello{}, ErrNotHello
	}
	body, err := helloBody(line)
	if errors.Is(err, ErrNotHello) {
		return Hello{}, err
	}
	if len(line) > MaxHello {
		return Hello{}, fmt.Errorf("broken hello: longer than %d bytes", MaxHello)
	}
	if err != nil {
		return Hello{}, fmt.Errorf("broken hello: %w", err)
	}
	h, err := parseHelloBody(body)
	if err != nil {
		return Hello{}, fmt.Errorf("broken hello: %w", err)
	}
	return h, nil
}

func parseHelloBody(body object) (Hello, error) {
	// The version comes first: with another one, nothing else need make sense.
	version, err := body.one("version")
	if err != nil {
		return Hello{}, err
	}
	if n, err := wholeNumber(version); err != nil || n != Version {
		return Hello{}, fmt.Errorf("version %s %w, use version %d", excerpt(version), ErrVersion, Version)
	}
	var h Hello
	if h.Producer, err = body.text("producer"); err != nil {
		return Hello{}, err
	}
	if err := CheckProducer(h.Producer); err != nil {
		return Hello{}, err
	}
	next, err := body.one("next")
	if err != nil {
		return Hello{}, err
	}
	if h.Next, err = wholeNumber(next); err != nil || h.Next == 0 {
		return Hello{}, fmt.Errorf("next must be a whole number of at least 1, not %s", excerpt(next))
	}
	return h, nil
}

// beginsLikeHello reports whether line begins {"docket":{ with any white space.
func beginsLikeHello(line []byte) bool {
	line = skipSpace(line)
	if len(line) == 0 || line[0] != '{' {
		return false
	}
	line, ok := bytes.CutPrefix(skipSpace(line[1:]), []byte(`"docket"`))
	if !ok {
		return false
	}
	line, ok = bytes.CutPrefix(skipSpace(line), []byte(":"))
	return ok && bytes.HasPrefix(skipSpace(line), []byte("{"))
}

// helloBody returns the object that is the value of "docket" in a line that
// begins like a hello. It is ErrNotHello when other members stand beside it.
func helloBody(line []byte) (object, error) {
	outer, err := parseObject(line)
	if err != nil {
		return nil, err
	}
	if len(outer) != 1 {
		return nil, ErrNotHello
	}
	return parseObject(outer[0].value)
}

// skipSpace cuts the white space of JSON from the front.
func skipSpace(b []byte) []byte { return b[rawjson.SkipSpace(b, 0):] }

// excerpt is a value of the other side as it may stand in an error text. Only a number is
// quoted: the text is logged, and a line that was taken for a hello may hold what nobody is
// to read.
func excerpt(value rawjson.Value) string {
	const enough = 40
	switch kind := value.Kind(); {
	case kind == rawjson.String:
		return "(a text)"
	case kind == rawjson.Object || kind == rawjson.Array:
		return "(an object or array)"
	case len(value) > enough:
		return "(a number of " + strconv.Itoa(len(value)) + " digits)"
	}
	return string(value)
}
