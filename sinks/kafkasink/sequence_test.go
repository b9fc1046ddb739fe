package kafkasink

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/docket-export/docket/sinks"
)

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

// recordsFrom are n records, from the item at first of a batch on.
func recordsFrom(first, n int) []record {
	var list []record
	for i := range n {
		list = append(list, record{item: first + i})
	}
	return list
}

// The numbers of a request that got no answer go with its records for ever: they are made again as they were,
// or their producer writes no more.
func TestLostNumbersAreNotUsedAgain(t *testing.T) {
	late, another := keyed(5, 3), keyed(5, 3)
	late.Items[1].Late = sinks.Replayed
	another.Queue = "00000000-0000-0000-0000-000000000000"
	for name, test := range map[string]struct {
		next sinks.Batch
		want bool
	}{
		"as it was":         {keyed(5, 3), true},
		"and more":          {keyed(5, 4), true},
		"fewer records":     {keyed(5, 2), false},
		"later records":     {keyed(8, 3), false},
		"without the first": {keyed(6, 4), false},
		"one replayed":      {late, false},
		"another queue":     {another, false},
	} {
		q := &sequence{producer: producer{7, 1}, next: 4}
		if err := q.settle(keyed(5, 3), recordsFrom(0, 3), kafka.RequestTimedOut); !errors.Is(err, kafka.RequestTimedOut) || q.next != 4 {
			t.Fatalf("%s: settle = %v, next %d", name, err, q.next)
		}
		if got := q.continues(test.next, recordsFrom(0, len(test.next.Items))); got != test.want {
			t.Errorf("%s: continues = %t, want %t", name, got, test.want)
		}
	}
}

// What the answer to a request means for its numbers, and for those of the records behind it.
func TestNumbersAfterAnAnswer(t *testing.T) {
	b, records := keyed(1, 3), recordsFrom(0, 3)
	unknown := errors.New("EOF")
	for name, test := range map[string]struct {
		answers []error // to the request and to its repeats
		stored  bool    // after the last of them
		goesOn  bool    // the producer
		next    int32
	}{
		"stored":                          {[]error{nil}, true, true, 3},
		"lost, then stored":               {[]error{unknown, unknown, nil}, true, true, 3},
		"lost, then known":                {[]error{unknown, kafka.DuplicateSequenceNumber}, true, true, 3},
		"known at the first time":         {[]error{kafka.DuplicateSequenceNumber}, false, false, 0},
		"refused uses up none":            {[]error{kafka.InvalidRecord}, false, true, 0},
		"lost, then refused may be there": {[]error{unknown, kafka.InvalidRecord}, false, false, 0},
		"the producer is forgotten":       {[]error{kafka.UnknownProducerId}, false, false, 0},
		"out of order":                    {[]error{unknown, kafka.OutOfOrderSequenceNumber}, false, false, 0},
	} {
		q := &sequence{producer: producer{7, 1}}
		var err error
		for _, answer := range test.answers {
			err = q.settle(b, records, answer)
		}
		if (err == nil) != test.stored || q.continues(b, records) != test.goesOn || q.next != test.next {
			t.Errorf("%s: got %v, goes on %t with %d; want stored %t, %t, %d", name, err, q.continues(b, records), q.next, test.stored, test.goesOn, test.next)
		}
		if repeated := len(test.answers) > 1; repeated && isRefusal(err) {
			t.Errorf("%s: %v would set a record aside that may be stored", name, err)
		}
	}
}

// After the greatest number comes 0.
func TestNumbersStartAgain(t *testing.T) {
	for first, want := range map[int32]int32{math.MaxInt32 - 3: math.MaxInt32, math.MaxInt32 - 2: 0, math.MaxInt32 - 1: 1, math.MaxInt32: 2} {
		q := &sequence{producer: producer{7, 1}, next: first}
		if err := q.settle(keyed(1, 3), recordsFrom(0, 3), nil); err != nil || q.first() != want {
			t.Errorf("three records from %d on: then %d, %v, want %d", first, q.first(), err, want)
		}
	}
}

// A retry may have more records than the attempt. Those that may be stored are a request
// of their own, or a broker would not know it again.
func TestRepeatedRequestIsTheSame(t *testing.T) {
	b := startBrokers(t, 1)
	s := openSink(t, b.ListenAddrs())
	var requests []string
	b.setAnswer(func(req *kmsg.ProduceRequest) kmsg.Response {
		head := headOf(req.Topics[0].Partitions[0].Records)
		requests = append(requests, fmt.Sprint(head.FirstSequence, "+", head.NumRecords))
		return nil
	})
	send(t, s, keyed(1, 2))
	b.setLoseAnswer(true)
	sendFails(t, s, keyed(3, 3), sinks.Transient)
	b.setLoseAnswer(false)
	send(t, s, keyed(3, 5))
	send(t, s, keyed(8, 1))
	if want := []string{"0+2", "2+3", "2+3", "5+2", "7+1"}; !slices.Equal(requests, want) {
		t.Errorf("requests are %q, want %q", requests, want)
	}
	b.expectOnce(t, 8)
}

func headOf(batch []byte) kmsg.RecordBatch {
	var head kmsg.RecordBatch
	if err := head.ReadFrom(batch); err != nil {
		panic(err)
	}
	return head
}

// A broker that does not know the producer any more gets the records from another one.
// Other partitions keep theirs.
func TestForgottenProducer(t *testing.T) {
	for _, code := range []int16{45, 59} {
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
