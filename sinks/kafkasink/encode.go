package kafkasink

import (
	"encoding/binary"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/tidwall/gjson"

	"github.com/docket-export/docket/sinks"
)

const (
	// maxRequest bounds the records of one request. Brokers take 1,048,588
	// bytes unless told otherwise; the rest is for what estimates leave out.
	maxRequest = 900 << 10
	// recordOverhead is what the format adds to the bytes of one record, at
	// most: lengths and deltas as varints, for the record and five headers.
	recordOverhead = 64
	// headerRoom is a guess at the bytes of a record's header values, so that
	// an encoder's buffer seldom grows.
	headerRoom = 192
)

// record is one item as a broker gets it.
type record struct {
	item    int    // index into the batch
	key     []byte // nil for none
	value   []byte
	headers []kafka.Header
}

// size estimates the bytes of r in a request from above, uncompressed.
func (r *record) size() int {
	n := recordOverhead + len(r.key) + len(r.value)
	for _, h := range r.headers {
		n += len(h.Key) + len(h.Value)
	}
	return n
}

// encoder turns the items of one batch into records that hold no byte of it.
// The copy is needed: when a request is given up, kafka-go returns at once and
// its connection may read the records for a while yet.
type encoder struct {
	bytes   []byte
	headers []kafka.Header
}

// reset makes e ready for b, reusing its memory.
func (e *encoder) reset(b sinks.Batch) {
	if room := b.Size() + len(b.Items)*headerRoom; cap(e.bytes) < room {
		e.bytes = make([]byte, 0, room)
	}
	e.bytes, e.headers = e.bytes[:0], e.headers[:0]
}

// record encodes item i of b, its key made of the fields at paths.
func (e *encoder) record(b sinks.Batch, i int, paths []string) record {
	it := &b.Items[i]
	r := record{item: i, key: e.key(it.Record, paths), value: e.copy(string(it.Record))}

	id := e.copy(b.ID(i))
	first := len(e.headers)
	e.headers = append(e.headers,
		kafka.Header{Key: "docket-id", Value: id},
		kafka.Header{Key: "docket-seq", Value: id[len(b.Queue)+1:]},
		kafka.Header{Key: "docket-source", Value: e.copy(it.Source)},
	)
	if it.Producer != "" {
		e.headers = append(e.headers, kafka.Header{Key: "docket-producer", Value: e.copy(it.Producer)})
	}
	start := len(e.bytes)
	e.bytes = it.Received.UTC().AppendFormat(e.bytes, time.RFC3339Nano)
	e.headers = append(e.headers, kafka.Header{Key: "docket-received", Value: e.since(start)})

	r.headers = e.headers[first:len(e.headers):len(e.headers)]
	return r
}

// key returns the values at paths joined by "/", nil when there are none.
func (e *encoder) key(record []byte, paths []string) []byte {
	start, found := len(e.bytes), false
	for i, path := range paths {
		if i > 0 {
			e.bytes = append(e.bytes, '/')
		}
		value := gjson.GetBytes(record, path)
		if value.Type == gjson.Null { // missing or null
			continue
		}
		found = true
		if value.Type == gjson.String {
			e.bytes = append(e.bytes, value.Str...)
		} else {
			e.bytes = append(e.bytes, value.Raw...) // as it came: 1.0 stays 1.0
		}
	}
	if !found {
		e.bytes = e.bytes[:start]
		return nil
	}
	return e.since(start)
}

func (e *encoder) copy(s string) []byte {
	start := len(e.bytes)
	e.bytes = append(e.bytes, s...)
	return e.since(start)
}

// since returns what was appended after start, fenced off from what follows.
func (e *encoder) since(start int) []byte { return e.bytes[start:len(e.bytes):len(e.bytes)] }

// partitionOf returns the partition for a key, by the murmur2 hash and the
// modulus of the Java client, so that other producers agree where a key lives.
func partitionOf(key []byte, partitions []int) int {
	return kafka.Murmur2Balancer{Consistent: true}.Balance(kafka.Message{Key: key}, partitions...)
}

// stickyPartition is the partition for the records of b that have no key. They
// stay together, since one full request costs less than many small ones. The
// seq is hashed because batches of a steady size would otherwise take steps of
// that size through the partitions and miss some for ever.
func stickyPartition(b sinks.Batch, partitions []int) int {
	return partitionOf(binary.BigEndian.AppendUint64(nil, b.Items[0].Seq), partitions)
}

// requests cuts records into runs that each fit a request. A record larger than
// that is a run of its own: what is too large, the broker decides.
func requests(records []record) [][]record {
	var runs [][]record
	start, size := 0, 0
	for i := range records {
		n := records[i].size()
		if i > start && size+n > maxRequest {
			runs = append(runs, records[start:i])
			start, size = i, 0
		}
		size += n
	}
	return append(runs, records[start:])
}

// messages are records as kafka-go wants them. Its readers can be read once, so
// every request gets new ones. The time of a message is left to the moment of
// sending: brokers count retention from it, and a backlog older than that would
// be deleted on arrival. When docket received a record says docket-received.
func messages(records []record) kafka.RecordReader {
	list := make([]kafka.Record, len(records))
	for i, r := range records {
		list[i] = kafka.Record{Key: kafka.NewBytes(r.key), Value: kafka.NewBytes(r.value), Headers: r.headers}
	}
	return kafka.NewRecordReader(list...)
}
