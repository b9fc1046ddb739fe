package kafkasink

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/internal/fakekafka"
	"github.com/docket-export/docket/sinks"
)

// testGroup is the group of the sink "bus" of the tests, and its transactional id.
const testGroup = "docket-" + queueID + "-bus"

// transactions counts what an observer is told.
type transactions struct {
	mu                         sync.Mutex
	committed, aborted, fenced int
	next                       uint64
}

func (o *transactions) Committed(next uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.committed, o.next = o.committed+1, next
}

func (o *transactions) Aborted() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.aborted++
}

func (o *transactions) Fenced() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.fenced++
}

func (o *transactions) want(t *testing.T, committed, aborted, fenced int) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.committed != committed || o.aborted != aborted || o.fenced != fenced {
		t.Errorf("got %d transactions committed, %d aborted, %d fenced; want %d, %d, %d",
			o.committed, o.aborted, o.fenced, committed, aborted, fenced)
	}
}

// openExactlyOnce opens a sink that has not been resumed yet.
func openExactlyOnce(t *testing.T, b *fakekafka.Cluster, change ...func(*Config)) (*exactlyOnce, *transactions) {
	t.Helper()
	c := defaultConfig()
	c.Brokers, c.Topic, c.Timeout, c.Delivery = b.ListenAddrs(), testTopic, config.Duration(ample), ExactlyOnce
	for _, f := range change {
		f(c)
	}
	if err := c.Validate().Err(); err != nil {
		t.Fatalf("Validate = %v, want nothing wrong", err)
	}
	o := &transactions{}
	s, err := c.Open(context.Background(), sinks.Env{Name: "bus", Log: slog.New(slog.DiscardHandler), Transactions: o})
	if err != nil {
		t.Fatalf("Open = %v, want nil", err)
	}
	t.Cleanup(func() { s.Close(context.Background()) })
	return s.(*exactlyOnce), o
}

// follow decides as a delivery does whose account says next: it goes on from the position
// in Kafka where that is further.
func follow(next uint64) sinks.Decide {
	return func(at sinks.Position, found bool) (sinks.Position, error) {
		if found && at.Next > next {
			return at, nil
		}
		return sinks.Position{Next: next, Lineage: testQueue.Lineage}, nil
	}
}

func resume(t *testing.T, e *exactlyOnce, next uint64) {
	t.Helper()
	if err := e.Resume(context.Background(), testQueue, follow(next)); err != nil {
		t.Fatalf("Resume = %v, want nil", err)
	}
}

// resumed is a sink that goes on from what Kafka has, or from 1.
func resumed(t *testing.T, b *fakekafka.Cluster, change ...func(*Config)) (*exactlyOnce, *transactions) {
	t.Helper()
	e, o := openExactlyOnce(t, b, change...)
	resume(t, e, 1)
	return e, o
}

// position is what a docket that started now would be told.
func position(t *testing.T, b *fakekafka.Cluster) (at sinks.Position, found bool) {
	t.Helper()
	e, _ := openExactlyOnce(t, b)
	looked := errors.New("looked")
	err := e.Resume(context.Background(), testQueue, func(p sinks.Position, ok bool) (sinks.Position, error) {
		at, found = p, ok
		return p, looked
	})
	if !errors.Is(err, looked) {
		t.Fatalf("Resume = %v, want the error of decide", err)
	}
	return at, found
}

func wantNext(t *testing.T, b *fakekafka.Cluster, want uint64) {
	t.Helper()
	if next, err := b.Offset(testGroup, testTopic, 0); err != nil || next != int64(want) {
		t.Errorf("the position in Kafka is %d (%v), want %d", next, err, want)
	}
}

// wantCommitted wants a read_committed consumer to get these values of testTopic, in this
// order in each partition, and no transaction to be open.
func wantCommitted(t *testing.T, b *fakekafka.Cluster, want ...string) {
	t.Helper()
	var got []string
	for _, p := range b.PartitionInfos(testTopic) {
		records, err := b.Committed(testTopic, p.Partition)
		if err != nil {
			t.Fatalf("read partition %d: %v", p.Partition, err)
		}
		for _, r := range records {
			got = append(got, string(r.Value))
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("a read_committed consumer gets %q, want %q", got, want)
	}
}

func TestExactlyOnceSends(t *testing.T) {
	b := fakekafka.Start(t, 1, 3, testTopic)
	s, o := resumed(t, b, func(c *Config) { c.Partitioner = RoundRobin })
	sent := batch(1, `{"a":1}`, `{"a":2}`, `{"a":3}`, `{"a":4}`)
	send(t, s, sent)
	send(t, s, batch(5, `{"a":5}`))
	wantCommitted(t, b, `{"a":3}`, `{"a":1}`, `{"a":4}`, `{"a":2}`, `{"a":5}`)
	o.want(t, 3, 0, 0) // the first of them claims
	if o.next != 6 {
		t.Errorf("the observer was told position %d, want 6", o.next)
	}
	at, found := position(t, b)
	if !found || at.Next != 6 || !slices.Equal(at.Lineage, testQueue.Lineage) {
		t.Errorf("got position %+v (%v), want 6 of %v", at, found, testQueue.Lineage)
	}
}

func TestExactlyOnceFenced(t *testing.T) {
	t.Run("", func(t *testing.T) { testFenced(t, false) })
	t.Run("by one whose clock is behind", func(t *testing.T) { testFenced(t, true) })
}

func testFenced(t *testing.T, behind bool) {
	b := fakekafka.Start(t, 1, 1, testTopic)
	first, o := resumed(t, b)
	send(t, first, batch(1, `{"a":1}`))
	second, _ := openExactlyOnce(t, b)
	if behind {
		second.self.started -= int64(time.Hour)
	}
	resume(t, second, 1)
	sendFails(t, first, batch(2, `{"a":2}`), sinks.Transient, "90")
	for range 2 {
		f := sendFails(t, first, batch(2, `{"a":2}`), sinks.Misconfigured, "another docket", testGroup)
		if f.Reason != sinks.Fenced {
			t.Errorf("got reason %q, want %q", f.Reason, sinks.Fenced)
		}
	}
	if err := first.Resume(context.Background(), testQueue, follow(1)); sinks.FailureOf(err).Reason != sinks.Fenced {
		t.Errorf("Resume of a fenced sink = %v, want reason %s", err, sinks.Fenced)
	}
	o.want(t, 2, 1, 1)
	send(t, second, batch(2, `{"a":2}`))
	wantCommitted(t, b, `{"a":1}`, `{"a":2}`)
}

// A docket whose first claim got no answer, and that was taken over from meanwhile, claims anew: the
// other one may have seen the first claim, and still learns that this one has come after it.
func TestExactlyOnceFencedByOneThatClaimedTwice(t *testing.T) {
	b := fakekafka.Start(t, 1, 1, testTopic)
	first, _ := openExactlyOnce(t, b)
	b.Arm(fakekafka.Fault{At: fakekafka.Point{Key: kmsg.EndTxn, Nth: 2}, Effect: fakekafka.CutAfter}) // the claim
	if err := first.Resume(context.Background(), testQueue, follow(1)); err == nil {
		t.Fatal("Resume = nil, want that the answer to the claim is lost")
	}
	second, o := openExactlyOnce(t, b)
	second.self.started -= int64(time.Hour) // it has not reached the brokers until now
	resume(t, second, 1)
	resume(t, first, 1)
	sendFails(t, second, batch(1, `{"a":1}`), sinks.Transient)
	if f := sendFails(t, second, batch(1, `{"a":1}`), sinks.Misconfigured); f.Reason != sinks.Fenced {
		t.Errorf("got reason %q, want %q", f.Reason, sinks.Fenced)
	}
	o.want(t, 1, 1, 1)
	send(t, first, batch(1, `{"a":1}`))
	wantCommitted(t, b, `{"a":1}`)
}

// An answer that is older than the log may still have the claim before: it is none of another docket.
func TestExactlyOnceKnowsItsClaims(t *testing.T) {
	b := fakekafka.Start(t, 1, 1, testTopic)
	s, _ := openExactlyOnce(t, b)
	resume(t, s, 1)
	before := committed{owner: s.self}
	resume(t, s, 1)
	if before.owner == s.self {
		t.Fatal("the second claim has the owner of the first")
	}
	if _, err := s.judge([]committed{before}); err != nil {
		t.Errorf("judge = %v, want nil", err)
	}
}

func TestExactlyOnceMetadata(t *testing.T) {
	want := committed{Position: sinks.Position{Next: 18, Replayed: -3}, owner: owner{"00fa0b1c2d3e4f56", 5}, sent: 9}
	const firstSeq = 1 << 62 // as long as numbers get
	for n := range 3 * sinks.KeptIncarnations {
		want.Lineage = want.Lineage.Begin(fmt.Sprintf("0f6c0000-0000-4000-8000-%012d", n), firstSeq+uint64(n))
	}
	want.Next = firstSeq + 2*sinks.KeptIncarnations // the later ones have stored what the destination lacks
	parse := func(metadata string) (committed, bool, error) {
		return parseCommitted(offset{next: int64(want.Next), metadata: metadata}, queueID)
	}
	text := want.metadata()
	if len(text) > 2048 { // of 4096 that brokers take
		t.Errorf("the metadata have %d bytes", len(text))
	}
	got, ok, err := parse(text)
	want.Lineage = want.Lineage[sinks.KeptIncarnations : 2*sinks.KeptIncarnations]
	if !ok || err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, %v; want %+v", got, ok, err, want)
	}
	// A docket whose ids began with that of the queue has written no lineage.
	got, ok, err = parse("1 owner=00fa0b1c2d3e4f56 started=5 sent=9 replayed=-3 received=1790000000023456789")
	if want.Lineage = (sinks.Lineage{{ID: queueID, First: 1}}); !ok || err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("version 1: got %+v, %v, %v; want %+v", got, ok, err, want)
	}
	for _, foreign := range []string{"", "reset by hand"} {
		if _, ok, err := parse(foreign); ok || err != nil {
			t.Errorf("%q: got %v, %v; want a position that is not docket's", foreign, ok, err)
		}
	}
	for _, unknown := range []string{strings.Replace(text, "2 ", "3 ", 1), "1 owner=1", "2 owner=1", text[:strings.Index(text, " lineage")], text + ",x@1"} {
		if _, _, err := parse(unknown); sinks.FailureOf(err).Kind != sinks.Misconfigured {
			t.Errorf("%q: got %v, want a failure that asks for an operator", unknown, err)
		}
	}
}

// A position on another topic, of a configuration before, counts at the start and not later.
func TestExactlyOnceOtherTopic(t *testing.T) {
	b := fakekafka.Start(t, 1, 1, testTopic, "audit")
	before, _ := resumed(t, b, func(c *Config) { c.Topic = "audit" })
	send(t, before, batch(1, `{"a":1}`))
	s, _ := resumed(t, b)
	send(t, s, batch(1, `{"a":1}`, `{"a":2}`))
	wantCommitted(t, b, `{"a":2}`)
	deletePosition(t, b, testTopic)
	s.session = nil
	send(t, s, batch(2, `{"a":2}`, `{"a":3}`))
	wantCommitted(t, b, `{"a":2}`, `{"a":3}`)
	sendFails(t, before, batch(2, `{"a":2}`), sinks.Transient)
	if f := sendFails(t, before, batch(2, `{"a":2}`), sinks.Misconfigured); f.Reason != sinks.Fenced {
		t.Errorf("the docket before fails for reason %q, want %q", f.Reason, sinks.Fenced)
	}
}

// An offset that a person has set is none of docket's.
func TestExactlyOnceOffsetsReset(t *testing.T) {
	b := fakekafka.Start(t, 1, 1, testTopic)
	s, _ := resumed(t, b)
	send(t, s, batch(1, `{"a":1}`))
	setOffset(t, b, 77, "")
	if at, found := position(t, b); found {
		t.Errorf("got position %+v, want none", at)
	}
}

// An offset that has been changed beside a sink makes it skip no record, nor write one again,
// also where it looks like the sink's own.
func TestExactlyOnceOffsetChanged(t *testing.T) {
	for _, offset := range []int64{0, 77} {
		t.Run(fmt.Sprint(offset), func(t *testing.T) {
			b := fakekafka.Start(t, 1, 1, testTopic)
			s, _ := resumed(t, b)
			send(t, s, batch(1, `{"a":1}`))
			own := committed{Position: s.position, owner: s.self, sent: s.sent}
			setOffset(t, b, offset, own.metadata())
			s.session = nil
			send(t, s, batch(1, `{"a":1}`, `{"a":2}`))
			wantCommitted(t, b, `{"a":1}`, `{"a":2}`)
			wantNext(t, b, 3)
		})
	}
}

// An offset that docket cannot read stops the sink, which says how it goes on.
func TestExactlyOnceOffsetUnreadable(t *testing.T) {
	for _, metadata := range []string{"1 owner=", "2 owner=7"} {
		b := fakekafka.Start(t, 1, 1, testTopic)
		s, _ := openExactlyOnce(t, b)
		other, _ := resumed(t, b)
		send(t, other, batch(1, `{"a":1}`))
		setOffset(t, b, 77, metadata)
		err := s.Resume(context.Background(), testQueue, follow(2))
		if f := sinks.FailureOf(err); f.Kind != sinks.Misconfigured || !strings.Contains(err.Error(), "--delete-offsets --group "+testGroup+" --topic "+testTopic) {
			t.Errorf("%q: Resume = %v, want a failure with the command that mends it", metadata, err)
		}
		deletePosition(t, b, testTopic)
		resume(t, s, 2)
		send(t, s, batch(2, `{"a":2}`))
		wantCommitted(t, b, `{"a":1}`, `{"a":2}`)
	}
}

// setOffset gives the sink's group another offset, as everybody can who may write to the group.
func setOffset(t *testing.T, b *fakekafka.Cluster, offset int64, metadata string) {
	t.Helper()
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group = testGroup
	partition := kmsg.NewOffsetCommitRequestTopicPartition()
	partition.Offset, partition.Metadata = offset, &metadata
	req.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: testTopic, Partitions: []kmsg.OffsetCommitRequestTopicPartition{partition}}}
	if res := ask(t, b, req).(*kmsg.OffsetCommitResponse); res.Topics[0].Partitions[0].ErrorCode != 0 {
		t.Fatalf("set the offset: %+v", res)
	}
}

// ask makes a request of an operator.
func ask(t *testing.T, b *fakekafka.Cluster, req kmsg.Request) kmsg.Response {
	t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(b.ListenAddrs()...), kgo.MaxVersions(kversion.V2_8_0())) // which names topics
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	res, err := c.Request(context.Background(), req)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func deletePosition(t *testing.T, b *fakekafka.Cluster, topic string) {
	t.Helper()
	req := kmsg.NewPtrOffsetDeleteRequest()
	req.Group = testGroup
	req.Topics = []kmsg.OffsetDeleteRequestTopic{{Topic: topic, Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{}}}}
	res := ask(t, b, req).(*kmsg.OffsetDeleteResponse)
	if res.ErrorCode != 0 || res.Topics[0].Partitions[0].ErrorCode != 0 {
		t.Fatalf("delete the offset of %s: %+v", topic, res)
	}
}

// A coordinator that has just started may know less than its log, until it writes to it.
func TestExactlyOnceCoordinatorBehind(t *testing.T) {
	b := fakekafka.Start(t, 1, 1, testTopic)
	before, _ := resumed(t, b)
	send(t, before, batch(1, `{"a":1}`))
	var written atomic.Bool
	b.ControlKey(int16(kmsg.TxnOffsetCommit), func(kmsg.Request) (kmsg.Response, error, bool) {
		written.Store(true)
		return nil, nil, false
	})
	b.ControlKey(int16(kmsg.OffsetFetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		return req.ResponseKind(), nil, !written.Load()
	})
	s, _ := resumed(t, b)
	send(t, s, batch(1, `{"a":1}`, `{"a":2}`))
	wantCommitted(t, b, `{"a":1}`, `{"a":2}`)
	wantNext(t, b, 3)
}

// A coordinator does not list an offset that has only been written in a transaction which
// is ending. By its name it says that it is to be waited for.
func TestExactlyOncePendingPosition(t *testing.T) {
	b := fakekafka.Start(t, 1, 1, testTopic)
	before := committed{Position: sinks.Position{Next: 9}, owner: owner{"00fa0b1c2d3e4f56", 1}}
	asked := 0
	b.ControlKey(int16(kmsg.OffsetFetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		fetch := req.(*kmsg.OffsetFetchRequest)
		res := fetch.ResponseKind().(*kmsg.OffsetFetchResponse)
		if len(fetch.Topics) == 0 {
			return res, nil, true
		}
		p := kmsg.NewOffsetFetchResponseTopicPartition()
		if asked++; asked == 1 {
			p.ErrorCode, p.Offset = kerr.UnstableOffsetCommit.Code, -1
		} else {
			metadata := before.metadata()
			p.Offset, p.Metadata = int64(before.Next), &metadata
		}
		res.Topics = []kmsg.OffsetFetchResponseTopic{{Topic: testTopic, Partitions: []kmsg.OffsetFetchResponseTopicPartition{p}}}
		return res, nil, true
	})
	s, _ := resumed(t, b)
	send(t, s, batch(1, `{"a":1}`))
	wantCommitted(t, b)
	if s.position.Next != 9 {
		t.Errorf("the sink goes on from %d, want 9", s.position.Next)
	}
}

// A broker that asks for a pause in the middle gets it, and the transaction goes on.
func TestExactlyOnceThrottled(t *testing.T) {
	b := startLimited(t, 4<<10)
	c := defaultConfig()
	c.Brokers, c.Topic, c.Timeout, c.Delivery = b.ListenAddrs(), testTopic, config.Duration(ample), ExactlyOnce
	limited(c)
	opened, err := c.Open(context.Background(), sinks.Env{Name: "bus", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close(context.Background())
	s := opened.(*exactlyOnce)
	resume(t, s, 1)
	b.setAnswer(func(req *kmsg.ProduceRequest) kmsg.Response {
		res := answerCode(req, 0).(*kmsg.ProduceResponse)
		res.ThrottleMillis = 5
		return res
	})
	record := fmt.Sprintf(`{"a":"%s"}`, strings.Repeat("a", 3<<10))
	send(t, s, batch(1, record, record, record))
	if n := len(b.requestSizes()); n != 3 {
		t.Errorf("%d requests were made, want 3", n)
	}
	if s.resumeAt.IsZero() {
		t.Error("the pause that the last answer asks for has been forgotten")
	}
	if s.pauseInside(context.Background(), 10*time.Minute) {
		t.Error("a pause as long as a transaction may last is taken inside of one")
	}
}

// Brokers that are too slow for a batch get it in several transactions, which are smaller
// each time that one is given up, and larger when they are not slow any more.
func TestExactlyOnceSlow(t *testing.T) {
	b := fakekafka.Start(t, 1, 1, testTopic)
	s, _ := resumed(t, b)
	const size = 20 << 10
	var records []string
	for i := range 6 {
		records = append(records, fmt.Sprintf(`{"a":%d,"b":"%s"}`, i, strings.Repeat("b", size)))
	}
	late := batch(1, records...)
	late.Items[0].Late, late.Items[1].Late = sinks.Redriven, sinks.Redriven
	slow := true
	b.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		r := req.(*kmsg.ProduceRequest)
		if !slow || len(r.Topics[0].Partitions[0].Records) < 2*size {
			return nil, nil, false
		}
		res := answerCode(r, 0).(*kmsg.ProduceResponse)
		res.ThrottleMillis = int32(time.Hour.Milliseconds())
		return res, nil, true
	})
	b.Arm(fakekafka.Fault{At: fakekafka.Point{Key: kmsg.EndTxn, Nth: 6}, Effect: fakekafka.CutAfter})
	for attempt := 1; ; attempt++ {
		err := s.Send(context.Background(), late)
		if err == nil {
			break
		}
		if f := sinks.FailureOf(err); f.Kind == sinks.Misconfigured || f.Kind == sinks.Rejected || attempt == 20 {
			t.Fatalf("attempt %d: Send = %v, want nil soon", attempt, err)
		}
		s.resumeAt = time.Time{}
	}
	wantCommitted(t, b, records...)
	wantNext(t, b, 7)
	slow = false
	s.most = size
	send(t, s, batch(7, records...))
	if s.most < 4*size {
		t.Errorf("transactions of %d bytes follow those that were quick, want larger ones", s.most)
	}
	wantCommitted(t, b, append(records, records...)...)
}

// A record that is refused is named as the one of the whole batch that it is, behind parts
// of the batch that are there.
func TestExactlyOnceRefusedInPart(t *testing.T) {
	b := fakekafka.Start(t, 1, 1, testTopic)
	s, _ := resumed(t, b)
	s.most = 1
	b.Arm(fakekafka.Fault{At: fakekafka.Point{Key: kmsg.Produce, Nth: 2}, Effect: fakekafka.Answer, Code: kerr.InvalidRecord})
	f := sendFails(t, s, batch(1, `{"a":1}`, `{"a":2}`, `{"a":3}`), sinks.Rejected, "[87]")
	if !slices.Equal(f.Items, []int{1}) {
		t.Errorf("items %v were rejected, want the second", f.Items)
	}
	rest := batch(1, `{"a":1}`, `{"a":2}`, `{"a":3}`)
	rest.Items = slices.Delete(rest.Items, 1, 2)
	send(t, s, rest)
	wantCommitted(t, b, `{"a":1}`, `{"a":3}`)
	wantNext(t, b, 4)
}

// What an operator has to permit or to set.
func TestExactlyOnceMisconfigured(t *testing.T) {
	for _, test := range []struct {
		key  kmsg.Key
		code *kerr.Error
		want string
	}{
		{kmsg.FindCoordinator, kerr.GroupAuthorizationFailed, "permit this client to read groups"},
		{kmsg.InitProducerID, kerr.TransactionalIDAuthorizationFailed, "permit this client to write and describe transactional ids"},
		{kmsg.InitProducerID, kerr.InvalidTransactionTimeout, "raise transaction.max.timeout.ms of the brokers to 900000, or lower kafka.timeout"},
		{kmsg.AddPartitionsToTxn, kerr.TopicAuthorizationFailed, "permit this client to write to the topic"},
		{kmsg.AddOffsetsToTxn, kerr.GroupAuthorizationFailed, "permit this client to read groups"},
		{kmsg.TxnOffsetCommit, kerr.TopicAuthorizationFailed, `permit this client to read from topic "decisions" too`},
	} {
		t.Run(test.key.Name(), func(t *testing.T) {
			b := fakekafka.Start(t, 1, 1, testTopic)
			s, _ := resumed(t, b)
			s.session = nil
			b.Arm(fakekafka.Fault{At: fakekafka.Point{Key: test.key, Nth: b.Counts()[test.key] + 1}, Effect: fakekafka.Answer, Code: test.code})
			sendFails(t, s, batch(1, `{"a":1}`), sinks.Misconfigured, test.want)
			sendUntilTaken(t, s, batch(1, `{"a":1}`))
			wantCommitted(t, b, `{"a":1}`)
		})
	}
}

// Brokers before Kafka 2.5 do not say whether a transaction is about to change an offset.
func TestExactlyOnceOldBrokers(t *testing.T) {
	for _, test := range []struct {
		name    string
		brokers *kversion.Versions
		want    string // in the error; empty: none
	}{
		{"2.4", kversion.V2_4_0(), "the brokers are too old for this client"},
		{"2.5", kversion.V2_5_0(), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := startBrokers(t, 1, kfake.MaxVersions(test.brokers))
			once := func(c *Config) { c.Delivery = ExactlyOnce }
			s := openSink(t, b.ListenAddrs(), once).(*exactlyOnce)
			resumed, probed := s.Resume(context.Background(), testQueue, follow(1)), probe(t, b.ListenAddrs(), once)
			for what, err := range map[string]error{"Resume": resumed, "Probe": probed} {
				switch {
				case test.want == "" && err != nil:
					t.Errorf("%s = %v, want nil", what, err)
				case test.want != "":
					probeFails(t, err, sinks.Misconfigured, "ExactlyOnce needs Kafka 2.5", test.want)
				}
			}
		})
	}
}

// Records are not written by a sink that does not know where Kafka is.
func TestExactlyOnceNotResumed(t *testing.T) {
	b := fakekafka.Start(t, 1, 1, testTopic)
	s, _ := openExactlyOnce(t, b)
	sendFails(t, s, batch(1, `{"a":1}`), sinks.Transient, "has not been resumed")
	refused := errors.New("the queue is an older copy")
	err := s.Resume(context.Background(), testQueue, func(sinks.Position, bool) (sinks.Position, error) { return sinks.Position{}, refused })
	if !errors.Is(err, refused) {
		t.Errorf("Resume = %v, want %v", err, refused)
	}
	sendFails(t, s, batch(1, `{"a":1}`), sinks.Transient, "has not been resumed")
	wantCommitted(t, b)
}

// A broker that fails at the first request of a transaction is not asked for the other
// partitions as well: one that hangs would cost the time of a request for each.
func TestExactlyOnceBrokerFails(t *testing.T) {
	b := fakekafka.Start(t, 1, 4, testTopic)
	s, _ := resumed(t, b, func(c *Config) { c.Partitioner = RoundRobin })
	b.Arm(fakekafka.Fault{At: fakekafka.Point{Key: kmsg.Produce, Nth: 1}, Effect: fakekafka.CutBefore})
	four := batch(1, `{"a":1}`, `{"a":2}`, `{"a":3}`, `{"a":4}`)
	sendFails(t, s, four, sinks.Transient)
	if n := b.Counts()[kmsg.Produce]; n != 1 {
		t.Errorf("got %d requests to a broker that fails, want 1", n)
	}
	send(t, s, four)
	wantCommitted(t, b, `{"a":4}`, `{"a":1}`, `{"a":2}`, `{"a":3}`)
}
