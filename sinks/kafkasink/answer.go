package kafkasink

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

// The bounds of what brokers answer. kafka-go has none: it allocates what a count in an answer
// asks for, and panics at a negative one. So an answer is read whole and checked in front of it.
//
// answerBytes is for all answers of a sink at a time, with what kafka-go makes of them. It is
// enough for the metadata of 2,000 partitions, or for an error for each record of a batch.
const answerBytes = 704 << 10

// perElement is what a struct in a list costs beside twice its size: it becomes one of a map too.
const perElement = 40

// asked is a request as its head tells:
//
//	length of what follows     4
//	key of the API             2
//	version                    2
//	correlation                4  the answer repeats it behind its own length
type asked struct {
	key         protocol.ApiKey
	version     int16
	correlation uint32
}

// readAsked reads the head of a request, and how many bytes the request has.
func readAsked(head []byte) (a asked, size int, err error) {
	if len(head) < atCorrelation+4 {
		return a, 0, errors.New("the request is too short")
	}
	a.key = protocol.ApiKey(binary.BigEndian.Uint16(head[4:]))
	a.version = int16(binary.BigEndian.Uint16(head[atVersion:]))
	a.correlation = binary.BigEndian.Uint32(head[atCorrelation:])
	if a.key == protocol.SaslHandshake && a.version == 0 { // what follows would have no heads
		return a, 0, fmt.Errorf("SASL as before Kafka 1.0: %w", kafka.UnsupportedVersion)
	}
	return a, 4 + int(binary.BigEndian.Uint32(head)), nil
}

// check walks the answer to a as kafka-go decodes it, and returns the memory that this takes.
func (a asked) check(answer []byte) (cost int, err error) {
	// What kafka-go makes of nothing has the type that it decodes the answer into.
	_, empty, _ := protocol.ReadResponse(bytes.NewReader([]byte{0, 0, 0, 4, 0, 0, 0, 0}), a.key, a.version)
	if empty == nil {
		return len(answer), nil // kafka-go cannot read it: kmsg does, for offsetFetch
	}
	t := reflect.TypeOf(empty).Elem()
	w := answerWalk{answerReader: answerReader{rest: answer}, version: a.version, cost: len(answer)}
	for i := range t.NumField() {
		_, tagged := inVersion(t.Field(i), a.version)
		w.flexible = w.flexible || tagged
	}
	if w.flexible {
		w.tags()
	}
	if w.value(t); w.short {
		return 0, fmt.Errorf("the answer to %s lists more than it holds", a.key)
	}
	return w.cost, nil
}

// answerWalk goes through an answer by the tags of kafka-go's structs.
type answerWalk struct {
	answerReader
	version  int16
	flexible bool // lengths are compact, and tags follow each struct
	cost     int
}

func (w *answerWalk) value(t reflect.Type) {
	switch {
	case t.Kind() == reflect.Struct:
		for i := range t.NumField() {
			if present, tagged := inVersion(t.Field(i), w.version); present && !tagged {
				w.value(t.Field(i).Type)
			}
		}
		if w.flexible {
			w.tags()
		}
	case t.Kind() == reflect.String:
		w.take(w.length(2))
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		w.take(w.length(4))
	case t.Kind() == reflect.Slice:
		n := w.length(4)
		w.cost += int(n) * int(t.Elem().Size())
		if t.Elem().Kind() == reflect.Struct {
			w.cost += int(n) * (int(t.Elem().Size()) + perElement)
		}
		for ; n > 0 && !w.short; n-- {
			w.value(t.Elem())
		}
	default:
		w.take(uint64(t.Size()))
	}
}

// length is how many of something follow, each of a byte at least; size is that of the number.
func (w *answerWalk) length(size uint) uint64 {
	if w.flexible {
		return w.count()
	}
	n := w.number(uint64(size))
	if n>>(8*size-1) != 0 { // negative: none
		return 0
	}
	if n > uint64(len(w.rest)) {
		w.rest, w.short = nil, true
	}
	return n
}

// tags skips tagged fields. Those of more than 31 bits would be other fields to kafka-go.
func (w *answerWalk) tags() {
	for n := w.uvarint(); n > 0 && !w.short; n-- {
		w.short = w.uvarint() > math.MaxInt32 || w.short
		w.take(w.uvarint())
	}
}

// inVersion reads the tag of a field, such as `kafka:"min=v0,max=v2|min=v3,max=v4,tag"`.
func inVersion(f reflect.StructField, version int16) (present, tagged bool) {
	for span := range strings.SplitSeq(f.Tag.Get("kafka"), "|") {
		first, rest, _ := strings.Cut(strings.TrimPrefix(span, "min=v"), ",max=v")
		last, options, _ := strings.Cut(rest, ",")
		low, lowErr := strconv.Atoi(first)
		high, highErr := strconv.Atoi(last)
		if lowErr == nil && highErr == nil && low <= int(version) && int(version) <= high {
			return true, strings.Contains(options, "tag")
		}
	}
	return false, false
}

// answerReader reads an answer from its beginning. Behind its end there are zeros.
type answerReader struct {
	rest  []byte
	short bool // the end has been passed
}

func (r *answerReader) take(n uint64) []byte {
	if n > uint64(len(r.rest)) {
		r.rest, r.short = nil, true
		return nil
	}
	taken := r.rest[:n]
	r.rest = r.rest[n:]
	return taken
}

// number is one of size bytes.
func (r *answerReader) number(size uint64) uint64 {
	var n uint64
	for _, b := range r.take(size) {
		n = n<<8 | uint64(b)
	}
	return n
}

func (r *answerReader) uvarint() uint64 {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 {
		r.rest, r.short = nil, true
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

// count is how many of something follow. Each of them has a byte at least.
func (r *answerReader) count() uint64 {
	n := r.uvarint()
	if n > uint64(len(r.rest)) {
		r.rest, r.short = nil, true
	}
	if n == 0 || r.short {
		return 0
	}
	return n - 1
}
