package kafkasink

import (
	"encoding/binary"
	"math/bits"
	"strconv"
	"strings"
	"time"

	"github.com/docket-export/docket/decision"
	"github.com/docket-export/docket/sinks"
)

// record is one item on its way to a partition. Its bytes are the batch's and
// the encoder's: it is of no use when Send has returned.
type record struct {
	item    int    // index into the batch
	key     []byte // as the format has it, with its length before it
	value   []byte // the bytes of the item
	headers []byte // as the format has them, with their number before them
}

// numberBytes is how many bytes the number of a record within its request takes
// at most: a million records are more than a request can hold.
const numberBytes = 3

// body is the size of r in a request without the length before it, when its
// number in there takes so many bytes.
func (r *record) body(number int) int {
	return 1 + 1 + number + len(r.key) + sized(len(r.value)) + len(r.headers)
}

// size is what r has in a request at most, uncompressed.
func (r *record) size() int { return sized(r.body(numberBytes)) }

// sized is the size of n bytes with their length before them.
func sized(n int) int { return varintSize(n) + n }

// varintSize is the size of n as the format writes numbers: seven bits a byte,
// one of all for the sign.
func varintSize(n int) int { return bits.Len(uint(n))/7 + 1 }

// encoder makes the parts of records that are not the bytes of their items.
type encoder struct {
	bytes []byte // the parts of all records, one behind the other
	value []byte // one whose length is not known yet
	form  form   // of the record that is being made

	// The headers of the last record that say where it is from, since the next
	// one often has the same.
	origin      origin
	originBytes []byte
	originCount int
}

// reset makes e ready for another batch, reusing its memory.
func (e *encoder) reset() { e.bytes = e.bytes[:0] }

// record makes a record of item i of b as c says. key is what decides on its
// partition, nil for none; it may be empty, which is another key.
func (e *encoder) record(b sinks.Batch, i int, c *Config) (r record, key []byte) {
	it := &b.Items[i]
	e.form.known = false
	r = record{item: i, value: it.Record}
	start := len(e.bytes)
	if e.key(it.Record, c.Key) {
		e.sized(e.value)
		key = e.since(len(e.bytes) - len(e.value))
	} else {
		e.bytes = binary.AppendVarint(e.bytes, -1)
	}
	r.key = e.since(start)

	start = len(e.bytes)
	e.bytes = append(e.bytes, 0) // their number, which maxHeaders keeps within a byte
	n := e.docketHeaders(b.Queue, it) + e.configuredHeaders(c.Headers, it.Record)
	e.bytes[start] = byte(2 * n)
	r.headers = e.since(start)
	return r, key
}

// key puts the values at paths, joined by "/", into e.value. It returns false
// when there are none.
func (e *encoder) key(record []byte, paths []string) bool {
	e.value = e.value[:0]
	found := false
	for i, path := range paths {
		if i > 0 {
			e.value = append(e.value, '/')
		}
		if e.field(record, path) {
			found = true
		}
	}
	return found
}

// field appends the value at path to e.value. It returns false when there is none.
func (e *encoder) field(record []byte, path string) (found bool) {
	if name, ok := strings.CutPrefix(path, decision.NormalizedPrefix); ok {
		text, found := e.form.field(record, name)
		e.value = append(e.value, text...)
		return found
	}
	e.value, found = appendField(e.value, record, path)
	return found
}

// docketHeaders adds docket's own headers and returns how many.
func (e *encoder) docketHeaders(queue string, it *sinks.Item) int {
	e.value = append(append(e.value[:0], queue...), '-')
	seq := len(e.value)
	e.value = strconv.AppendUint(e.value, it.Seq, 10)
	e.header("docket-id", e.value)
	e.header("docket-seq", e.value[seq:])
	n := 2 + e.originHeaders(it)
	if it.Late != sinks.OnTime {
		e.textHeader("docket-late", string(it.Late))
		n++
	}
	return n
}

// origin is where a record is from. Those that were read together have the same.
type origin struct {
	source, producer string
	received         time.Time
}

// originHeaders adds the headers that say where it is from, and returns how many.
func (e *encoder) originHeaders(it *sinks.Item) int {
	from := origin{it.Source, it.Producer, it.Received}
	if e.originCount > 0 && from == e.origin {
		e.bytes = append(e.bytes, e.originBytes...)
		return e.originCount
	}
	start := len(e.bytes)
	e.origin, e.originCount = from, 2
	e.textHeader("docket-source", it.Source)
	if it.Producer != "" {
		e.textHeader("docket-producer", it.Producer)
		e.originCount++
	}
	e.value = it.Received.UTC().AppendFormat(e.value[:0], time.RFC3339Nano)
	e.header("docket-received", e.value)
	e.originBytes = append(e.originBytes[:0], e.bytes[start:]...)
	return e.originCount
}

// configuredHeaders adds those of headers that record has a value for and
// returns how many.
func (e *encoder) configuredHeaders(headers []Header, record []byte) int {
	n := 0
	for _, h := range headers {
		e.value = append(e.value[:0], h.Value...)
		if h.Field == "" || e.field(record, h.Field) {
			e.header(h.Name, e.value)
			n++
		}
	}
	return n
}

func (e *encoder) header(name string, value []byte) {
	e.bytes = binary.AppendVarint(e.bytes, int64(len(name)))
	e.bytes = append(e.bytes, name...)
	e.sized(value)
}

func (e *encoder) textHeader(name, value string) {
	e.value = append(e.value[:0], value...)
	e.header(name, e.value)
}

// sized adds value with its length before it.
func (e *encoder) sized(value []byte) {
	e.bytes = binary.AppendVarint(e.bytes, int64(len(value)))
	e.bytes = append(e.bytes, value...)
}

// since returns what was added after start, fenced off from what follows.
func (e *encoder) since(start int) []byte { return e.bytes[start:len(e.bytes):len(e.bytes)] }
