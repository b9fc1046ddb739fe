package kafkasink

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/docket-export/docket/sinks"
)

const limitedTopic = "limited"

// startLimited starts a broker with limitedTopic, whose requests may have limit
// bytes.
func startLimited(t *testing.T, limit int) *brokers {
	t.Helper()
	b := startBrokers(t, 1)
	if err := b.CreateTopic(limitedTopic, 1, map[string]string{maxMessage: strconv.Itoa(limit)}); err != nil {
		t.Fatal(err)
	}
	return b
}

func limited(c *Config) { c.Topic = limitedTopic }

// padded is a record of about n bytes.
func padded(i, n int) string {
	return `{"n":` + strconv.Itoa(i) + `,"pad":"` + strings.Repeat("x", n) + `"}`
}

func paddeds(count, n int) []string {
	var texts []string
	for i := range count {
		texts = append(texts, padded(i, n))
	}
	return texts
}

// refusals counts the requests that the broker refuses for their size.
func (b *brokers) refusals(limit int) int {
	n := 0
	for _, size := range b.requestSizes() {
		if size > limit {
			n++
		}
	}
	return n
}

func TestSizedByTheTopic(t *testing.T) {
	for _, limit := range []int{4 << 10, 4 << 20} {
		b := startLimited(t, limit)
		s := openSink(t, b.ListenAddrs(), limited)
		send(t, s, batch(1, paddeds(limit*3/1000, 1000)...))
		sizes := b.requestSizes()
		if b.refusals(limit) > 0 || slices.Max(sizes) < limit/2 {
			t.Errorf("max.message.bytes %d: requests have %v bytes, want as few as fit", limit, sizes)
		}
		if got, want := b.count(limitedTopic), limit*3/1000; got != want {
			t.Errorf("the topic holds %d messages, want %d", got, want)
		}
	}
}

// The limit is about the compressed request, and brokers have the last word.
func TestTooLargeUnlessCompressed(t *testing.T) {
	const limit = 8 << 10
	b := startLimited(t, limit)
	s := openSink(t, b.ListenAddrs(), limited, func(c *Config) { c.Compression = "zstd" })
	random := make([]byte, 2*limit)
	for i := range random {
		random[i] = 'a' + byte(rand.IntN(26))
	}
	f := sendFails(t, s, batch(1, `{"a":1}`, padded(2, 100*limit), `{"a":"`+string(random)+`"}`, `{"a":4}`), sinks.Rejected, "[10]")
	if want := []int{2}; !slices.Equal(f.Items, want) {
		t.Errorf("Items = %v, want %v: what fits compressed is taken", f.Items, want)
	}
	if got := f.Answer(2); got.Status != "MESSAGE_TOO_LARGE" || !strings.Contains(got.Text, "Message Size Too Large") {
		t.Errorf("the answer is %+v, want the broker's", got)
	}
	if got := b.count(limitedTopic); got != 3 {
		t.Errorf("the topic holds %d messages, want the 3 others", got)
	}
}

// Whoever is not told the limit goes by the brokers' default, and asks no more
// than is of use.
func TestLimitUnknown(t *testing.T) {
	for name, answer := range map[string]func(kmsg.Request) (kmsg.Response, error, bool){
		"not permitted": func(req kmsg.Request) (kmsg.Response, error, bool) {
			res := req.ResponseKind().(*kmsg.DescribeConfigsResponse)
			r := kmsg.NewDescribeConfigsResponseResource()
			r.ErrorCode, r.ResourceType, r.ResourceName = 29, kmsg.ConfigResourceTypeTopic, testTopic
			res.Resources = append(res.Resources, r)
			return res, nil, true
		},
		"not understood": func(kmsg.Request) (kmsg.Response, error, bool) { return nil, errors.New("what?"), true },
	} {
		t.Run(name, func(t *testing.T) {
			b := startBrokers(t, 1)
			var asked atomic.Int32
			b.ControlKey(int16(kmsg.DescribeConfigs), func(req kmsg.Request) (kmsg.Response, error, bool) {
				b.KeepControl()
				asked.Add(1)
				return answer(req)
			})
			s := openSink(t, b.ListenAddrs())
			for i := range 3 {
				send(t, s, batch(uint64(1+2000*i), paddeds(2000, 1000)...))
			}
			if most := slices.Max(b.requestSizes()); most > defaultMaxBytes {
				t.Errorf("the largest request has %d bytes, want at most %d", most, defaultMaxBytes)
			}
			if got := asked.Load(); got != 1 {
				t.Errorf("the limit was asked for %d times, want once", got)
			}
			// Without the limit only a broker knows what is too large.
			f := sendFails(t, s, batch(7001, `{"a":1}`, padded(1, 2*defaultMaxBytes)), sinks.Rejected, "[10]", "partition 0")
			if want := []int{1}; !slices.Equal(f.Items, want) {
				t.Errorf("Items = %v, want %v", f.Items, want)
			}
		})
	}
}

func TestWarnsOfLoss(t *testing.T) {
	for name, test := range map[string]struct {
		replicas, inSync int
		want             string // in a line of the log; empty for none
	}{
		"one broker holds it": {3, 1, "min.insync.replicas is 1"},
		"two brokers hold it": {3, 2, ""},
		"one replica":         {1, 1, "the topic has one replica"},
	} {
		log, lines := captureLog()
		s := &sink{log: log, topic: &topic{name: testTopic, replicas: test.replicas}}
		for range 3 {
			s.warnOfLoss(test.inSync)
		}
		if got := lines("level=WARN"); test.want == "" && got != 0 || test.want != "" && (got != 1 || lines(test.want) != 1) {
			t.Errorf("%s: %d warnings, %d with %q, want one at most", name, got, lines(test.want), test.want)
		}
	}
}

// A broker that asks for a pause gets it in the middle of a batch, too.
func TestThrottledBetweenRequests(t *testing.T) {
	b := startLimited(t, 4<<10)
	s := openSink(t, b.ListenAddrs(), limited, unnumbered) // what is said to be stored is not
	b.setAnswer(func(req *kmsg.ProduceRequest) kmsg.Response {
		res := answerCode(req, 0).(*kmsg.ProduceResponse)
		res.ThrottleMillis = 60_000
		return res
	})
	records := batch(1, paddeds(20, 1000)...)
	f := sendFails(t, s, records, sinks.Throttled, "quota")
	if f.After.Seconds() != 60 || len(b.requestSizes()) != 1 {
		t.Errorf("After = %v after %d requests, want 1m after 1", f.After, len(b.requestSizes()))
	}
	b.setAnswer(nil)
	s.(*sink).resumeAt = s.(*sink).resumeAt.Add(-60_000_000_000) // as if the minute had passed
	send(t, s, records)
	if sizes := b.requestSizes(); b.count(limitedTopic) >= 20 || b.count(limitedTopic) < 15 {
		t.Errorf("the topic holds %d messages of %d requests, want those that the first had not", b.count(limitedTopic), len(sizes))
	}
}
