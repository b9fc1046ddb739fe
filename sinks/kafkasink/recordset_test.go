package kafkasink

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/docket-export/docket/sinks"
)

// recordsOf encodes b as c says, all of it for one partition.
func recordsOf(b sinks.Batch, c *Config) []record {
	var e encoder
	var records []record
	for i := range b.Items {
		r, _ := e.record(b, i, c)
		records = append(records, r)
	}
	return records
}

// TestRecordSet reads with kafka-go what is written here: records of every size
// at which a length takes one more byte, with and without keys and headers.
func TestRecordSet(t *testing.T) {
	var texts []string
	for _, n := range []int{2, 30, 62, 63, 64, 65, 127, 128, 8_190, 8_191, 8_192, 8_193, 1 << 20} {
		texts = append(texts, `{"k":"`+strings.Repeat("k", min(n, 70))+`","pad":"`+strings.Repeat("x", n)+`"}`, strings.Repeat("y", n))
	}
	for i := range 200 {
		texts = append(texts, fmt.Sprintf(`{"n":%d}`, i))
	}
	b := batch(1<<40, texts...)
	c := &Config{Key: []string{"k"}, Headers: []Header{{Name: "team", Value: "policy"}, {Name: "n", Field: "n"}}}
	records := recordsOf(b, c)
	now := time.UnixMilli(1_800_000_000_123)
	for i, name := range compressions {
		codec := kafka.Compression(i)
		t.Run(name, func(t *testing.T) {
			as := stamp{codec: codec, time: now, producer: producer{id: 1<<40 + 7, epoch: 300}, sequence: 1<<31 - 9}
			as.transactional = codec != kafka.Gzip
			if codec == kafka.Lz4 {
				as = stamp{codec: codec, time: now, producer: nobody, sequence: -1}
			}
			var set recordSet
			for range 2 { // used again
				if err := set.encode(nil, records, as); err != nil {
					t.Fatal(err)
				}
			}
			if room := totalSize(records) + atRecords; codec == 0 && len(set.bytes) > room {
				t.Errorf("the request has %d bytes, want at most the %d that were reckoned with", len(set.bytes), room)
			}
			checkBatch(t, set.bytes[sizeBytes:], as, len(records))
			var read protocol.RecordSet
			if _, err := read.ReadFrom(bytes.NewReader(set.bytes)); err != nil {
				t.Fatal(err)
			}
			for i := range records {
				r, err := read.Records.ReadRecord()
				if err != nil {
					t.Fatalf("record %d: %v", i, err)
				}
				checkRecord(t, b, i, r, now)
			}
			if _, err := read.Records.ReadRecord(); !errors.Is(err, io.EOF) {
				t.Errorf("after the last record: %v, want %v", err, io.EOF)
			}
		})
	}
}

// checkBatch checks what kafka-go does not look at when it reads.
func checkBatch(t *testing.T, data []byte, as stamp, records int) {
	t.Helper()
	var got kmsg.RecordBatch
	if err := got.ReadFrom(data); err != nil {
		t.Fatal(err)
	}
	for rest := got.Records; as.codec == 0 && len(rest) > 0; {
		length, n := binary.Varint(rest)
		var r kmsg.Record
		if err := r.ReadFrom(rest[:n+int(length)]); err != nil || !bytes.Equal(r.AppendTo(nil), rest[:n+int(length)]) {
			t.Fatalf("a record of %d bytes is not what its length says: %v", length, err)
		}
		rest = rest[n+int(length):]
	}
	attributes := int16(as.codec)
	if as.transactional {
		attributes += 16
	}
	want := kmsg.RecordBatch{
		Length: int32(len(data) - 12), PartitionLeaderEpoch: -1, Magic: 2, CRC: got.CRC, Attributes: attributes,
		LastOffsetDelta: int32(records - 1), FirstTimestamp: as.time.UnixMilli(), MaxTimestamp: as.time.UnixMilli(),
		ProducerID: as.producer.id, ProducerEpoch: as.producer.epoch, FirstSequence: as.sequence, NumRecords: int32(records), Records: got.Records,
	}
	if !reflect.DeepEqual(got, want) {
		got.Records, want.Records = nil, nil
		t.Errorf("the head of the batch is %+v, want %+v", got, want)
	}
}

func checkRecord(t *testing.T, b sinks.Batch, i int, r *protocol.Record, now time.Time) {
	t.Helper()
	if got, _ := protocol.ReadAll(r.Value); !bytes.Equal(got, b.Items[i].Record) {
		t.Fatalf("record %d is %.60q, want %.60q", i, got, b.Items[i].Record)
	}
	if hasKey := strings.HasPrefix(string(b.Items[i].Record), `{"k":`); (r.Key != nil) != hasKey {
		t.Errorf("record %d: has a key: %v, want %v", i, r.Key != nil, hasKey)
	}
	if !r.Time.Equal(now) || r.Offset != int64(i) {
		t.Errorf("record %d has time %v and number %d, want %v and %d", i, r.Time, r.Offset, now, i)
	}
	want := 6
	if strings.HasPrefix(string(b.Items[i].Record), `{"n":`) {
		want++
	}
	if len(r.Headers) != want {
		t.Errorf("record %d has headers %v, want %d", i, r.Headers, want)
	}
	if got := string(r.Headers[0].Value); got != b.ID(i) {
		t.Errorf("record %d has id %s, want %s", i, got, b.ID(i))
	}
}

func TestRequests(t *testing.T) {
	sizes := func(n ...int) []record {
		var texts []string
		for _, size := range n {
			texts = append(texts, strings.Repeat("x", size))
		}
		return recordsOf(batch(1, texts...), &Config{})
	}
	const room = 10_000
	for name, test := range map[string]struct {
		records []record
		want    []int // records of each request
	}{
		"one":               {sizes(100), []int{1}},
		"all fit":           {sizes(3000, 3000, 3000), []int{3}},
		"halves":            {sizes(slices.Repeat([]int{1000}, 10)...), []int{5, 5}},
		"thirds":            {sizes(slices.Repeat([]int{2300}, 9)...), []int{3, 3, 3}},
		"too large alone":   {sizes(100, 20_000, 100), []int{1, 1, 1}},
		"only too large":    {sizes(20_000, 20_000), []int{1, 1}},
		"large at the end":  {sizes(100, 100, 9500), []int{2, 1}},
		"large at the head": {sizes(9500, 100, 9000), []int{1, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []int
			n := 0
			for _, run := range requests(test.records, room) {
				got = append(got, len(run))
				if size := totalSize(run); size > room && len(run) > 1 {
					t.Errorf("a request of %d records has %d bytes, want at most %d", len(run), size, room)
				}
				for _, r := range run {
					if r.item != n {
						t.Fatalf("record %d comes in the place of %d", r.item, n)
					}
					n++
				}
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("requests have %v records, want %v", got, test.want)
			}
		})
	}
}

// Brokers of every version that is supported take requests, at the version that they know.
func TestOldBrokers(t *testing.T) {
	for _, versions := range []*kversion.Versions{kversion.V0_11_0(), kversion.V1_0_0(), kversion.V2_0_0()} {
		b := startBrokers(t, 1, kfake.MaxVersions(versions))
		send(t, openSink(t, b.ListenAddrs()), batch(1, `{"a":1}`, `{"a":2}`))
		if got := strings.Join(b.values(t, 0), " "); got != `{"a":1} {"a":2}` {
			t.Errorf("%s: the topic holds %s", versions, got)
		}
	}
}
