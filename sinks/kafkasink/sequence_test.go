package kafkasink

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/docket-export/docket/sinks"
)

// witness is what brokers have seen of the sequence numbers of a sink.
type witness struct {
	mu        sync.Mutex
	records   map[number]string // those that may be stored, by their number
	producers map[int64]bool
	reused    []string // numbers that another record has had before
}

// number is a place in the sequence of a producer.
type number struct {
	partition int32
	id        int64
	epoch     int16
	sequence  int32
}

func newWitness() *witness {
	return &witness{records: map[number]string{}, producers: map[int64]bool{}}
}

// add takes note of a request that may be stored.
func (n *witness) add(req *kmsg.ProduceRequest) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := req.Topics[0].Partitions[0]
	head := headOf(p.Records)
	n.producers[head.ProducerID] = true
	for i, record := range recordsIn(p.Records) {
		at := number{p.Partition, head.ProducerID, head.ProducerEpoch, int32((int64(head.FirstSequence) + int64(i)) & math.MaxInt32)}
		if was, ok := n.records[at]; ok && was != record {
			n.reused = append(n.reused, fmt.Sprintf("%+v was that of %s and goes with %s", at, was, record))
		}
		n.records[at] = record
	}
}

// check fails t when a number went with two records: a broker would have stored one.
func (n *witness) check(t *testing.T) {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.reused) > 0 {
		t.Errorf("%d numbers are used again, the first: %s", len(n.reused), n.reused[0])
	}
	if n.producers[-1] {
		t.Error("records were written without numbers")
	}
}

func headOf(batch []byte) kmsg.RecordBatch {
	var head kmsg.RecordBatch
	if err := head.ReadFrom(batch); err != nil {
		panic(err)
	}
	return head
}

// recordsIn are the records of a batch: their seq, with another queue before it, and docket-late.
func recordsIn(batch []byte) []string {
	var set protocol.RecordSet
	if _, err := set.ReadFrom(bytes.NewReader(append(binary.BigEndian.AppendUint32(nil, uint32(len(batch))), batch...))); err != nil {
		panic(err)
	}
	var records []string
	for {
		r, err := set.Records.ReadRecord()
		if err != nil {
			return records
		}
		var m kafka.Message
		m.Headers = r.Headers
		records = append(records, strings.TrimPrefix(header(m, "docket-id"), queueID+"-")+header(m, "docket-late"))
	}
}

// producerRequests counts how often an id is asked for.
func (b *brokers) producerRequests() (count func() int) {
	var mu sync.Mutex
	n := 0
	b.ControlKey(int16(kmsg.InitProducerID), func(kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		mu.Lock()
		defer mu.Unlock()
		n++
		return nil, nil, false
	})
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return n
	}
}

// answerProducer has requests for an id answered with codes, one after the other.
func (b *brokers) answerProducer(codes ...int16) {
	b.ControlKey(int16(kmsg.InitProducerID), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		if len(codes) == 0 {
			return nil, nil, false
		}
		res := req.ResponseKind().(*kmsg.InitProducerIDResponse)
		res.ErrorCode = codes[0]
		if len(codes) > 1 || codes[0] == 14 {
			codes = codes[1:]
		}
		return res, nil, true
	})
}

// expectOnce wants records of the test's topic there once, and in order.
func (b *brokers) expectOnce(t *testing.T, records int) {
	t.Helper()
	total := 0
	for p := range b.stored(t) {
		seqs := seqsOf(t, b.held(t, p))
		if !slices.IsSorted(seqs) || len(slices.Compact(slices.Clone(seqs))) != len(seqs) {
			t.Errorf("partition %d holds seqs %v, want them once and in order", p, seqs)
		}
		total += len(seqs)
	}
	if total != records {
		t.Errorf("the topic holds %d records, want %d", total, records)
	}
}

func keyed(first, n int) sinks.Batch {
	var records []string
	for i := range n {
		records = append(records, fmt.Sprintf(`{"k":"key-%d"}`, (first+i)*7%23))
	}
	return batch(uint64(first), records...)
}

// A retry may have more records than the attempt. Those that may be stored are a request
// of their own, or a broker would not know it again.
func TestRepeatedRequestIsTheSame(t *testing.T) {
	b := startBrokers(t, 1)
	s := openSink(t, b.ListenAddrs())
	var requests []string
	b.setAnswer(func(req *kmsg.ProduceRequest) kmsg.Response {
		records := req.Topics[0].Partitions[0].Records
		requests = append(requests, fmt.Sprint(headOf(records).FirstSequence, recordsIn(records)))
		return nil
	})
	send(t, s, keyed(1, 2))
	b.setLoseAnswer(true)
	sendFails(t, s, keyed(3, 3), sinks.Transient)
	b.setLoseAnswer(false)
	send(t, s, keyed(3, 5))
	send(t, s, keyed(8, 1))
	want := []string{
		"0 [1(none) 2(none)]", "2 [3(none) 4(none) 5(none)]", "2 [3(none) 4(none) 5(none)]", "5 [6(none) 7(none)]", "7 [8(none)]",
	}
	if !slices.Equal(requests, want) {
		t.Errorf("requests are %q, want %q", requests, want)
	}
	b.expectOnce(t, 8)
}

// When what was lost does not come again as it was, other records must not get its
// numbers: the broker would take them for it.
func TestLostNumbersAreNotUsedAgain(t *testing.T) {
	redriven := keyed(1, 3)
	for i := range redriven.Items {
		redriven.Items[i].Late = sinks.Redriven
	}
	replayed := keyed(5, 3)
	replayed.Items[1].Late = sinks.Replayed
	another := keyed(5, 3)
	another.Queue = "00000000-0000-0000-0000-000000000000"
	for name, next := range map[string]sinks.Batch{
		"redriven records":    redriven,
		"fewer records":       keyed(5, 2),
		"later records":       keyed(8, 3),
		"without the first":   keyed(6, 4),
		"a replay":            replayed,
		"another queue":       another,
		"as it was, and more": keyed(5, 4),
	} {
		t.Run(name, func(t *testing.T) {
			b := startBrokers(t, 1)
			s := openSink(t, b.ListenAddrs())
			seen := newWitness()
			b.setAnswer(func(req *kmsg.ProduceRequest) kmsg.Response { seen.add(req); return nil })
			send(t, s, keyed(1, 4))
			b.setLoseAnswer(true)
			sendFails(t, s, keyed(5, 3), sinks.Transient)
			b.setLoseAnswer(false)
			send(t, s, next)
			send(t, s, keyed(20, 2))
			stored := b.held(t, 0)
			for _, it := range append(next.Items, keyed(20, 2).Items...) {
				if !slices.ContainsFunc(stored, func(m kafka.Message) bool { return header(m, "docket-seq") == fmt.Sprint(it.Seq) }) {
					t.Errorf("the topic does not hold record %d, which was accepted", it.Seq)
				}
			}
			wantProducers, want := 2, 4+3+len(next.Items)+2
			if name == "as it was, and more" {
				wantProducers, want = 1, 4+4+2
			}
			if len(stored) != want || len(seen.producers) != wantProducers {
				t.Errorf("the topic holds %d records of %d producers, want %d of %d", len(stored), len(seen.producers), want, wantProducers)
			}
			seen.check(t)
		})
	}
}

// Partitions that are added take records away from where they may be stored.
func TestPartitionsAddedToLostRecords(t *testing.T) {
	b := startBrokers(t, 2)
	s := unhurried(openSink(t, b.ListenAddrs(), withKey("k")))
	seen := newWitness()
	b.setAnswer(func(req *kmsg.ProduceRequest) kmsg.Response { seen.add(req); return nil })
	send(t, s, keyed(1, 50))
	b.setLoseAnswer(true)
	sendFails(t, s, keyed(51, 50), sinks.Transient)
	b.setLoseAnswer(false)
	b.addPartitions(t, 5)
	s.cluster.until = time.Time{}
	send(t, s, keyed(51, 50))
	send(t, s, keyed(101, 50))
	there := map[uint64]bool{}
	for p := range b.stored(t) {
		for _, seq := range seqsOf(t, b.held(t, p)) {
			there[seq] = true
		}
	}
	if len(there) != 150 {
		t.Errorf("the topic holds %d of the 150 records", len(there))
	}
	seen.check(t)
}

// A refusal uses up no number. What was sent before without an answer may be stored all
// the same, and its numbers are not for others when it is refused.
func TestNumbersOfRefusedRecords(t *testing.T) {
	t.Run("at once", func(t *testing.T) {
		b := startBrokers(t, 1)
		s := openSink(t, b.ListenAddrs())
		seen := newWitness()
		b.setAnswer(func(req *kmsg.ProduceRequest) kmsg.Response {
			if slices.Contains(recordsIn(req.Topics[0].Partitions[0].Records), "4(none)") {
				return answerCode(req, 87)
			}
			seen.add(req)
			return nil
		})
		send(t, s, keyed(1, 2))
		f := sendFails(t, s, keyed(3, 6), sinks.Rejected)
		if !slices.Equal(f.Items, []int{1}) {
			t.Errorf("Items = %v, want the second", f.Items)
		}
		send(t, s, keyed(9, 2))
		b.expectOnce(t, 9)
		seen.check(t)
		if len(seen.producers) != 1 {
			t.Errorf("%d producers, want 1", len(seen.producers))
		}
	})
	t.Run("after a lost answer", func(t *testing.T) {
		for _, named := range [][]int32{nil, {0}} {
			b := startBrokers(t, 1)
			s := openSink(t, b.ListenAddrs())
			seen := newWitness()
			lost := func(req *kmsg.ProduceRequest) kmsg.Response { seen.add(req); return nil }
			b.setAnswer(lost)
			send(t, s, keyed(1, 2))
			b.setLoseAnswer(true)
			sendFails(t, s, keyed(3, 2), sinks.Transient)
			b.setLoseAnswer(false)
			b.setAnswer(func(req *kmsg.ProduceRequest) kmsg.Response {
				if slices.Contains(recordsIn(req.Topics[0].Partitions[0].Records), "3(none)") {
					return answerCode(req, 87, named...)
				}
				return lost(req)
			})
			records := keyed(3, 3)
			sendFails(t, s, records, sinks.Transient, "rejected now", "a new producer")
			f := sendFails(t, s, records, sinks.Rejected)
			if !slices.Equal(f.Items, []int{0}) {
				t.Errorf("Items = %v, want the first", f.Items)
			}
			send(t, s, keyed(6, 2))
			for seq, want := range map[uint64]int{1: 1, 2: 1, 3: 1, 4: 2, 5: 1, 6: 1, 7: 1} {
				got := 0
				for _, there := range seqsOf(t, b.held(t, 0)) {
					if there == seq {
						got++
					}
				}
				if got != want {
					t.Errorf("the topic holds record %d %d times, want %d", seq, got, want)
				}
			}
			seen.check(t)
		}
	})
}

// A broker that does not know the producer any more gets the records from another one.
// Other partitions keep theirs.
func TestForgottenProducer(t *testing.T) {
	for _, code := range []int16{45, 46, 47, 49, 59, 90} {
		b := startBrokers(t, 2)
		asked := b.producerRequests()
		s := openSink(t, b.ListenAddrs(), func(c *Config) { c.Partitioner = RoundRobin })
		producers := map[int32]map[int64]bool{0: {}, 1: {}}
		b.setAnswer(func(req *kmsg.ProduceRequest) kmsg.Response {
			p := req.Topics[0].Partitions[0]
			producers[p.Partition][headOf(p.Records).ProducerID] = true
			return nil
		})
		send(t, s, keyed(1, 10))
		knows := b.answer
		b.setAnswer(func(req *kmsg.ProduceRequest) kmsg.Response {
			if req.Topics[0].Partitions[0].Partition == 0 {
				return answerCode(req, code)
			}
			return knows(req)
		})
		sendFails(t, s, keyed(11, 10), sinks.Transient, fmt.Sprintf("[%d]", code), "docket continues as a new producer")
		b.setAnswer(knows)
		send(t, s, keyed(11, 10))
		send(t, s, keyed(21, 10))
		b.expectOnce(t, 30)
		if asked() != 2 || len(producers[0]) != 2 || len(producers[1]) != 1 {
			t.Errorf("code %d: %d ids were asked for, partitions have %d and %d producers; want 2, 2 and 1", code, asked(), len(producers[0]), len(producers[1]))
		}
	}
}

// DUPLICATE_SEQUENCE_NUMBER says of a repeated request that it is stored.
func TestRepeatedRequestIsStored(t *testing.T) {
	b := startBrokers(t, 1)
	s := openSink(t, b.ListenAddrs())
	b.setLoseAnswer(true)
	sendFails(t, s, keyed(1, 2), sinks.Transient)
	b.setLoseAnswer(false)
	b.setAnswer(always(46))
	send(t, s, keyed(1, 2))
	b.setAnswer(nil)
	send(t, s, keyed(3, 2))
	b.expectOnce(t, 4)
}

// kafkaPartition takes batches of one partition as Kafka does.
type kafkaPartition struct {
	last    int32 // sequence number
	batches [][2]int32
	records []string
}

func (k *kafkaPartition) take(req *kmsg.ProduceRequest) (code int16) {
	records := req.Topics[0].Partitions[0].Records
	head := headOf(records)
	first, last := head.FirstSequence, int32((int64(head.FirstSequence)+int64(head.NumRecords)-1)%(1<<31))
	switch {
	case slices.Contains(k.batches, [2]int32{first, last}):
		return 0
	case len(k.batches) > 0 && first != k.last+1 && (first != 0 || k.last != math.MaxInt32):
		return 45
	}
	k.last = last
	k.batches = append(k.batches, [2]int32{first, last})
	k.batches = k.batches[max(0, len(k.batches)-5):]
	k.records = append(k.records, recordsIn(records)...)
	return 0
}

// After the greatest number comes 0.
func TestNumbersStartAgain(t *testing.T) {
	for _, first := range []int32{math.MaxInt32 - 4, math.MaxInt32 - 3, math.MaxInt32 - 2, math.MaxInt32 - 1, math.MaxInt32} {
		b := startBrokers(t, 1)
		s := openSink(t, b.ListenAddrs()).(*sink)
		var partition kafkaPartition
		lost := true // every other answer
		b.setAnswer(func(req *kmsg.ProduceRequest) kmsg.Response {
			code := partition.take(req)
			if lost = !lost; lost {
				code = 7
			}
			return answerCode(req, code)
		})
		send(t, s, batch(1, `{}`))
		s.topic.sequences[0].next = first
		partition.last = first - 1
		want := []string{"1(none)"}
		for i := range 4 {
			sendFails(t, s, keyed(2+2*i, 2), sinks.Transient, "[7]")
			send(t, s, keyed(2+2*i, 2))
			want = append(want, fmt.Sprint(2+2*i, "(none)"), fmt.Sprint(3+2*i, "(none)"))
		}
		if !slices.Equal(partition.records, want) {
			t.Errorf("from %d on: the partition holds %v, want %v", first, partition.records, want)
		}
	}
}

func TestProducerIsRefused(t *testing.T) {
	for code, want := range map[int16]string{
		31: "IdempotentWrite on the cluster",
		53: "IdempotentWrite on the cluster",
		35: "without idempotent producers",
		42: "without idempotent producers",
	} {
		b := startBrokers(t, 1)
		b.answerProducer(code)
		for range 2 {
			s := openSink(t, b.ListenAddrs())
			sendFails(t, s, keyed(1, 2), sinks.Misconfigured, "ask the brokers for a producer id", want, "set kafka.idempotence: Off")
		}
		probeFails(t, probe(t, b.ListenAddrs()), sinks.Misconfigured, "ask the brokers for a producer id", want, "set kafka.idempotence: Off")
		if err := probe(t, b.ListenAddrs(), unnumbered); err != nil {
			t.Errorf("Probe with idempotence Off = %v, want nil", err)
		}
		s := openSink(t, b.ListenAddrs(), unnumbered)
		send(t, s, keyed(1, 2))
		b.expectOnce(t, 2)
	}
}

// Brokers that do not list InitProducerID are not asked.
func TestProducerIsUnknown(t *testing.T) {
	b := startBrokers(t, 1)
	b.ControlKey(int16(kmsg.ApiVersions), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		res := req.ResponseKind().(*kmsg.ApiVersionsResponse)
		for key, version := range map[int16]int16{0: 8, 3: 8, 18: 0, 32: 0} {
			k := kmsg.NewApiVersionsResponseApiKey()
			k.ApiKey, k.MaxVersion = key, version
			res.ApiKeys = append(res.ApiKeys, k)
		}
		return res, nil, true
	})
	asked := b.producerRequests()
	sendFails(t, openSink(t, b.ListenAddrs()), keyed(1, 2), sinks.Misconfigured, "does not know InitProducerId", "set kafka.idempotence: Off")
	if asked() != 0 {
		t.Errorf("%d requests for a producer id, want none", asked())
	}
	send(t, openSink(t, b.ListenAddrs(), unnumbered), keyed(1, 2))
}

// A broker that has just started has no ids yet.
func TestProducerComesLater(t *testing.T) {
	b := startBrokers(t, 1)
	b.answerProducer(14, 14, 14)
	send(t, openSink(t, b.ListenAddrs()), keyed(1, 2))
	b.expectOnce(t, 2)
}
