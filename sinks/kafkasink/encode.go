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
	seq   [20]byte

	// The headers of docket that the last record has: those of the next one often differ
	// in its seq alone.
	last headers
}

// headers are those of docket of a record, as the format has them.
type headers struct {
	queue  string
	digits int // of the seq
	origin origin
	late   sinks.Late

	bytes       []byte
	count       int // 0: there are none yet
	inID, inSeq int // where the seq stands in bytes
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
	seq := strconv.AppendUint(e.seq[:0], it.Seq, 10)
	from := origin{it.Source, it.Producer, it.Received}
	start, last := len(e.bytes), &e.last
	if last.count > 0 && last.digits == len(seq) && last.queue == queue && last.late == it.Late && last.origin == from {
		e.bytes = append(e.bytes, last.bytes...)
		copy(e.bytes[start+last.inID:], seq)
		copy(e.bytes[start+last.inSeq:], seq)
		return last.count
	}
	e.value = append(append(append(e.value[:0], queue...), '-'), seq...)
	e.header("docket-id", e.value)
	inID := len(e.bytes) - start - len(seq)
	e.header("docket-seq", seq)
	inSeq := len(e.bytes) - start - len(seq)
	n := 2 + e.originHeaders(from)
	if it.Late != sinks.OnTime {
		e.textHeader("docket-late", string(it.Late))
		n++
	}
	e.last = headers{
		queue: queue, digits: len(seq), origin: from, late: it.Late,
		bytes: append(last.bytes[:0], e.bytes[start:]...), count: n, inID: inID, inSeq: inSeq,
	}
	return n
}

// origin is where a record is from. Those that were read together have the same.
type origin struct {
	source, producer string
	received         time.Time
}

// originHeaders adds the headers that say where a record is from, and returns how many.
func (e *encoder) originHeaders(from origin) int {
	n := 2
	e.textHeader("docket-source", from.source)
	if from.producer != "" {
		e.textHeader("docket-producer", from.producer)
		n++
	}
	e.value = from.received.UTC().AppendFormat(e.value[:0], time.RFC3339Nano)
	e.header("docket-received", e.value)
	return n
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
