package kafkasink

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/docket-export/docket/sinks"
	"github.com/docket-export/docket/sinks/sinktest"
)

func TestConformance(t *testing.T) {
	sinktest.Run(t, func(t *testing.T) sinktest.Subject {
		const maxRecord = 64 << 10
		b := startBrokers(t, 1, kfake.BrokerConfigs(map[string]string{"message.max.bytes": strconv.Itoa(maxRecord + 1024)}))
		fault := func(name string, kind sinks.Kind, code int16) sinktest.Fault {
			return sinktest.Fault{Name: name, Kind: kind, Start: func(*testing.T) func() {
				b.setAnswer(always(code))
				return func() { b.setAnswer(nil) }
			}}
		}
		return sinktest.Subject{
			Open:      func(t *testing.T) sinks.Sink { return openSink(t, b.ListenAddrs()) },
			Accepted:  func(t *testing.T) []string { return b.values(t, 0) },
			MaxRecord: maxRecord,
			Faults: []sinktest.Fault{
				fault("not enough replicas", sinks.Transient, 19),
				fault("not permitted", sinks.Misconfigured, 29),
				fault("invalid record", sinks.Rejected, 87),
				{Name: "answer lost", Kind: sinks.Transient, Start: func(*testing.T) func() {
					b.setLoseAnswer(true)
					return func() { b.setLoseAnswer(false) }
				}},
			},
			Hang: func(t *testing.T) (<-chan struct{}, func()) {
				reached := make(chan struct{})
				released := make(chan struct{})
				var once sync.Once
				b.setAnswer(func(*kmsg.ProduceRequest) kmsg.Response {
					once.Do(func() { close(reached) })
					<-released
					return nil
				})
				release := sync.OnceFunc(func() { close(released) })
				t.Cleanup(release)
				return reached, release
			},
		}
	})
}

func TestMessage(t *testing.T) {
	for _, codec := range compressions {
		t.Run(codec, func(t *testing.T) {
			b := startBrokers(t, 1)
			s := openSink(t, b.ListenAddrs(), withKey("kind", "name"), func(c *Config) { c.Compression = codec })
			items := batch(41, `{"kind":"Pod","name":"a b"}`, ` {"x": 1.0} `)
			items.Items[1].Producer = ""
			items.Items[1].Received = time.Date(2026, 1, 5, 11, 4, 7, 0, time.FixedZone("CET", 3600))
			before := time.Now().Add(-time.Second)
			send(t, s, items)

			if want := []int16{-1}; !slices.Equal(b.acks, want) {
				t.Errorf("acks of the requests are %v, want %v: all in-sync replicas", b.acks, want)
			}
			held := b.held(t, 0)
			if len(held) != 2 {
				t.Fatalf("the topic holds %d messages, want 2", len(held))
			}
			for i, want := range []struct {
				key     []byte
				value   string
				headers string
			}{
				{[]byte("Pod/a b"), `{"kind":"Pod","name":"a b"}`,
					"docket-id=" + queueID + "-41 docket-seq=41 docket-source=webhook docket-producer=pod-a/1 docket-received=2026-01-05T10:04:07.00000012Z"},
				{nil, ` {"x": 1.0} `,
					"docket-id=" + queueID + "-42 docket-seq=42 docket-source=webhook docket-received=2026-01-05T10:04:07Z"},
			} {
				var headers []string
				for _, h := range held[i].Headers {
					headers = append(headers, h.Key+"="+string(h.Value))
				}
				if got := strings.Join(headers, " "); got != want.headers {
					t.Errorf("headers of message %d are %q, want %q", i, got, want.headers)
				}
				if string(held[i].Key) != string(want.key) || (held[i].Key == nil) != (want.key == nil) {
					t.Errorf("key of message %d is %q, want %q", i, held[i].Key, want.key)
				}
				if got := string(held[i].Value); got != want.value {
					t.Errorf("value of message %d is %q, want %q", i, got, want.value)
				}
				if held[i].Time.Before(before) {
					t.Errorf("message %d has time %v, want that of its sending", i, held[i].Time)
				}
			}
		})
	}
}

// Every partition has its own fate; what one has taken is not sent to it again,
// though the retry carries more than the attempt did.
func TestPartialFailure(t *testing.T) {
	const partitions = 3
	b := startBrokers(t, partitions)
	s := openSink(t, b.ListenAddrs(), withKey("k"))
	record := func(i int) string { return fmt.Sprintf(`{"k":"key-%d"}`, i) }
	var records []string
	for i := range 30 {
		records = append(records, record(i))
	}
	b.setAnswer(func(req *kmsg.ProduceRequest) kmsg.Response {
		if req.Topics[0].Partitions[0].Partition == 1 {
			return answerCode(req, 19)
		}
		return nil
	})
	for range 2 {
		sendFails(t, s, batch(1, records...), sinks.Transient, "partition 1", "Not Enough Replicas")
	}
	if got := len(b.held(t, 0)) + len(b.held(t, 2)); got == 0 || got == 30 {
		t.Fatalf("the other partitions hold %d messages, want some and not all", got)
	}
	b.setAnswer(nil)
	send(t, s, batch(1, append(records, record(30), record(31))...))

	seen := map[uint64]bool{}
	for p := range partitions {
		seqs := seqsOf(t, b.held(t, p))
		if !slices.IsSorted(seqs) {
			t.Errorf("partition %d holds seqs %v, want them in order", p, seqs)
		}
		for _, seq := range seqs {
			if seen[seq] {
				t.Errorf("seq %d is held twice", seq)
			}
			seen[seq] = true
		}
	}
	if len(seen) != 32 {
		t.Errorf("the topic holds %d records, want 32", len(seen))
	}
	if n := len(s.(*sink).accepted); n != 0 {
		t.Errorf("%d seqs are remembered after the batch was accepted, want none", n)
	}
}

// Whatever a broker names as the reason, the record is found that it refuses.
func TestInvalidRecords(t *testing.T) {
	for _, named := range [][]int32{nil, {0}, {-1}, {99}} {
		b := startBrokers(t, 1)
		s := openSink(t, b.ListenAddrs())
		b.setAnswer(func(req *kmsg.ProduceRequest) kmsg.Response {
			if strings.Contains(string(req.Topics[0].Partitions[0].Records), "bad") {
				return answerCode(req, 32, named...)
			}
			return nil
		})
		text := "partition 0"
		if named != nil {
			text = "timestamp is out of range"
		}
		f := sendFails(t, s, batch(1, `{"a":1}`, `{"bad":2}`, `{"a":3}`, `{"a":4}`), sinks.Rejected, text)
		if want := []int{1}; !slices.Equal(f.Items, want) {
			t.Errorf("Items = %v, want %v", f.Items, want)
		}
		if got, want := b.values(t, 0), []string{`{"a":1}`, `{"a":3}`, `{"a":4}`}; !slices.Equal(got, want) {
			t.Errorf("the topic holds %q, want %q", got, want)
		}
	}
}

// A request that is refused for one of its records is sent in halves; when the
// first half fails otherwise, the second must wait, or it would overtake.
func TestHalvesKeepTheirOrder(t *testing.T) {
	b := startBrokers(t, 1)
	s := openSink(t, b.ListenAddrs())
	requests := 0
	b.setAnswer(func(req *kmsg.ProduceRequest) kmsg.Response {
		requests++
		switch requests {
		case 1:
			return answerCode(req, 87)
		case 2:
			return answerCode(req, 19)
		}
		return nil
	})
	records := []string{`{"a":1}`, `{"a":2}`, `{"a":3}`, `{"a":4}`}
	sendFails(t, s, batch(1, records...), sinks.Transient, "Not Enough Replicas")
	send(t, s, batch(1, records...))
	if got := b.values(t, 0); !slices.Equal(got, records) {
		t.Errorf("the topic holds %q, want %q", got, records)
	}
}

// The same goes for the requests that a large share is cut into.
func TestRequestsKeepTheirOrder(t *testing.T) {
	b := startLimited(t, 4<<10)
	s := openSink(t, b.ListenAddrs(), limited)
	first := true
	b.setAnswer(func(req *kmsg.ProduceRequest) kmsg.Response {
		if first {
			first = false
			return answerCode(req, 19)
		}
		return nil
	})
	records := batch(1, paddeds(20, 1000)...)
	sendFails(t, s, records, sinks.Transient, "Not Enough Replicas")
	if got := b.count(limitedTopic); got != 0 {
		t.Errorf("the topic holds %d messages, want none: the first request has failed", got)
	}
	send(t, s, records)
	if got := b.count(limitedTopic); got != 20 {
		t.Errorf("the topic holds %d messages, want 20", got)
	}
}

// The broker asks for the pause in an answer that accepts the records. It may ask for weeks, and gets an hour.
func TestThrottle(t *testing.T) {
	b := startBrokers(t, 1)
	s := openSink(t, b.ListenAddrs(), unnumbered) // what is said to be stored is not
	b.setAnswer(func(req *kmsg.ProduceRequest) kmsg.Response {
		res := answerCode(req, 0).(*kmsg.ProduceResponse)
		res.ThrottleMillis = 60_000
		return res
	})
	send(t, s, batch(1, `{"a":1}`))
	f := sendFails(t, s, batch(2, `{"a":2}`), sinks.Throttled, "quota")
	if f.After <= 50*time.Second || f.After > time.Minute {
		t.Errorf("After = %v, want what is left of 1m", f.After)
	}
	if got := len(b.requestSizes()); got != 1 {
		t.Errorf("%d requests, want 1: none during the pause", got)
	}
	s.(*sink).resumeAt = time.Now() // as if the minute had passed
	b.setAnswer(func(req *kmsg.ProduceRequest) kmsg.Response {
		res := answerCode(req, 0).(*kmsg.ProduceResponse)
		res.ThrottleMillis = math.MaxInt32
		return res
	})
	send(t, s, batch(2, `{"a":2}`))
	if f := sendFails(t, s, batch(3, `{"a":3}`), sinks.Throttled); f.After > time.Hour {
		t.Errorf("the sink waits for %s, want an hour at most", f.After)
	}
}
