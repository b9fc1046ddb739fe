package kafkasink

import (
	"context"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/internal/fakekafka"
	"github.com/docket-export/docket/internal/testlog"
	"github.com/docket-export/docket/sinks"
)

const (
	testTopic = "decisions"
	queueID   = "6f0c2f0e-5a0e-4c3e-9d57-3a5f1f6a7b10"

	// ample is a timeout of sinks: far beyond what brokers that serve need for anything here.
	ample = 5 * time.Minute
)

// testQueue is the queue of batches.
var testQueue = sinks.Queue{ID: queueID, Lineage: sinks.Lineage{{ID: queueID, First: 1}}}

// brokers is a cluster on real sockets whose produce requests can be answered
// by the test.
type brokers struct {
	*kfake.Cluster
	mu         sync.Mutex
	answer     func(*kmsg.ProduceRequest) kmsg.Response // nil lets the request through
	sizes      []int                                    // record bytes of each produce request
	acks       []int16                                  // of each produce request
	loseAnswer bool                                     // carry out produce requests and cut the connection
	frozen     bool                                     // read nothing from new connections
	conns      map[*brokerConn]struct{}                 // open
	dialed     int                                      // connections
}

// startBrokers starts one broker with the topic, unless options say otherwise.
func startBrokers(t testing.TB, partitions int32, options ...kfake.Opt) *brokers {
	t.Helper()
	b := &brokers{conns: map[*brokerConn]struct{}{}}
	options = append([]kfake.Opt{kfake.NumBrokers(1), kfake.SeedTopics(partitions, testTopic), kfake.ListenFn(b.listen)}, options...)
	c, err := kfake.NewCluster(options...)
	if err != nil {
		t.Fatalf("start brokers: %v", err)
	}
	t.Cleanup(c.Close)
	b.Cluster = c
	c.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		b.mu.Lock()
		defer b.mu.Unlock()
		p := req.(*kmsg.ProduceRequest)
		b.sizes = append(b.sizes, len(p.Topics[0].Partitions[0].Records))
		b.acks = append(b.acks, p.Acks)
		if b.answer == nil {
			return nil, nil, false
		}
		res := b.answer(p)
		return res, nil, res != nil
	})
	return b
}

func (b *brokers) setAnswer(answer func(*kmsg.ProduceRequest) kmsg.Response) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answer = answer
}

func (b *brokers) setLoseAnswer(lose bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.loseAnswer = lose
}

func (b *brokers) requestSizes() []int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]int(nil), b.sizes...)
}

// answerCode answers every partition of a request with code, and names the
// records at bad as its reason.
func answerCode(req *kmsg.ProduceRequest, code int16, bad ...int32) kmsg.Response {
	res := fakekafka.Refusal(req, code).(*kmsg.ProduceResponse)
	text := "timestamp is out of range"
	for _, t := range res.Topics {
		for i := range t.Partitions {
			for _, n := range bad {
				t.Partitions[i].ErrorRecords = append(t.Partitions[i].ErrorRecords, kmsg.ProduceResponseTopicPartitionErrorRecord{RelativeOffset: n, ErrorMessage: &text})
			}
		}
	}
	return res
}

func always(code int16) func(*kmsg.ProduceRequest) kmsg.Response {
	return func(req *kmsg.ProduceRequest) kmsg.Response { return answerCode(req, code) }
}

func (b *brokers) listen(network, address string) (net.Listener, error) {
	l, err := net.Listen(network, address)
	return &listener{Listener: l, brokers: b}, err
}

type listener struct {
	net.Listener
	brokers *brokers
}

func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	conn := &brokerConn{Conn: c, brokers: l.brokers}
	l.brokers.mu.Lock()
	defer l.brokers.mu.Unlock()
	conn.frozen.Store(l.brokers.frozen)
	l.brokers.conns[conn] = struct{}{}
	l.brokers.dialed++
	return conn, nil
}

// cutConnections closes every connection from the side of the brokers.
func (b *brokers) cutConnections() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range b.conns {
		c.Conn.Close()
	}
	clear(b.conns)
}

// stop ends the brokers, and returns when nothing is answered any more: after Close
// alone goroutines of theirs may still take a request.
func (b *brokers) stop() {
	b.Close()
	b.cutConnections()
}

// freezeConnections has every open connection stay open and nothing be read from it,
// and with later also those that are opened later.
func (b *brokers) freezeConnections(later bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.frozen = later
	for c := range b.conns {
		c.frozen.Store(true)
	}
}

// stored is how many messages each partition holds.
func (b *brokers) stored(t *testing.T) []int {
	t.Helper()
	var counts []int
	for _, p := range b.PartitionInfos(testTopic) {
		counts = append(counts, int(p.HighWatermark))
	}
	return counts
}

// brokerConn is the broker's end of a connection. A request comes as a length
// of four bytes and a body that begins with the key of its kind; the client has
// one request at a time on a connection.
type brokerConn struct {
	net.Conn
	brokers *brokers
	frozen  atomic.Bool
	mu      sync.Mutex
	sized   bool // the length has been read, and nothing of the body
	produce bool // the last request was one to produce
}

func (c *brokerConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	for err == nil && c.frozen.Load() {
		n, err = c.Conn.Read(p)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sized && n >= 2 {
		c.produce = p[0] == 0 && p[1] == byte(kmsg.Produce)
	}
	c.sized = len(p) == 4 && n == 4
	return n, err
}

func (c *brokerConn) Close() error {
	c.brokers.mu.Lock()
	delete(c.brokers.conns, c)
	c.brokers.mu.Unlock()
	return c.Conn.Close()
}

func (c *brokerConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	produce := c.produce
	c.mu.Unlock()
	c.brokers.mu.Lock()
	lose := c.brokers.loseAnswer
	c.brokers.mu.Unlock()
	if produce && lose {
		c.Close()
		return 0, net.ErrClosed
	}
	return c.Conn.Write(p)
}

// held returns the messages of one partition from its beginning.
func (b *brokers) held(t *testing.T, partition int) []kafka.Message {
	t.Helper()
	return b.heldBy(t, testTopic, partition)
}

// heldBy is held of a topic.
func (b *brokers) heldBy(t *testing.T, topic string, partition int) []kafka.Message {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), await.Left(t))
	defer cancel()
	c, err := kafka.DialLeader(ctx, "tcp", b.ListenAddrs()[0], topic, partition)
	if err != nil {
		t.Fatalf("read partition %d: %v", partition, err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(await.Left(t)))
	end, err := c.ReadLastOffset()
	if err != nil {
		t.Fatalf("read partition %d: %v", partition, err)
	}
	if _, err := c.Seek(0, kafka.SeekAbsolute); err != nil {
		t.Fatal(err)
	}
	messages := make([]kafka.Message, 0, end)
	for int64(len(messages)) < end {
		batch := c.ReadBatch(1, 64<<20)
		for int64(len(messages)) < end {
			m, err := batch.ReadMessage()
			if err != nil {
				break // the end of what one fetch has brought
			}
			messages = append(messages, m)
		}
		if err := batch.Close(); err != nil {
			t.Fatalf("read partition %d: %v", partition, err)
		}
	}
	return messages
}

// values are the values of one partition.
func (b *brokers) values(t *testing.T, partition int) []string {
	t.Helper()
	var values []string
	for _, m := range b.held(t, partition) {
		values = append(values, string(m.Value))
	}
	return values
}

func header(m kafka.Message, name string) string {
	for _, h := range m.Headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return "(none)"
}

// seqsOf are the docket-seq of messages in their order.
func seqsOf(t *testing.T, messages []kafka.Message) []uint64 {
	t.Helper()
	var seqs []uint64
	for _, m := range messages {
		seq, err := strconv.ParseUint(header(m, "docket-seq"), 10, 64)
		if err != nil {
			t.Fatalf("docket-seq: %v", err)
		}
		seqs = append(seqs, seq)
	}
	return seqs
}

// openSink opens a sink on addresses, with the defaults changed by change, and no
// timeout that brokers could miss unless that is changed too.
func openSink(t testing.TB, addresses []string, change ...func(*Config)) sinks.Sink {
	t.Helper()
	c := defaultConfig()
	c.Brokers, c.Topic, c.Timeout = addresses, testTopic, config.Duration(ample)
	for _, f := range change {
		f(c)
	}
	if err := c.Validate().Err(); err != nil {
		t.Fatalf("Validate = %v, want nothing wrong", err)
	}
	s, err := c.Open(context.Background(), sinks.Env{Name: "bus", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatalf("Open = %v, want nil", err)
	}
	t.Cleanup(func() { s.Close(context.Background()) })
	return s
}

// unhurried has the transport of s ask for metadata at its start and not by itself. s has sent nothing yet.
func unhurried(s sinks.Sink) *sink {
	k := s.(*sink).cluster
	k.transport.MetadataTTL = 1000 * time.Hour // it asks at any time before that
	return s.(*sink)
}

// captureLog is a log, and what counts the lines in it that contain a text.
func captureLog() (log *slog.Logger, lines func(text string) int) {
	out := &testlog.Buffer{}
	return slog.New(slog.NewTextHandler(out, nil)), func(text string) int {
		n := 0
		for line := range strings.Lines(out.String()) {
			if strings.Contains(line, text) {
				n++
			}
		}
		return n
	}
}

func withKey(paths ...string) func(*Config) { return func(c *Config) { c.Key = paths } }

// unnumbered has a sink write without sequence numbers, for brokers that lie.
func unnumbered(c *Config) { c.Idempotence = Off }

func withTLS(t config.TLS) func(*Config) { return func(c *Config) { c.TLS = &t } }

func batch(first uint64, records ...string) sinks.Batch {
	b := sinks.Batch{Queue: queueID}
	for i, r := range records {
		b.Items = append(b.Items, sinks.Item{
			Seq: first + uint64(i), Source: "webhook", Producer: "pod-a/1",
			Received: time.Date(2026, 1, 5, 10, 4, 7, 120, time.UTC), Record: []byte(r),
		})
	}
	return b
}

func send(t *testing.T, s sinks.Sink, b sinks.Batch) {
	t.Helper()
	if err := s.Send(context.Background(), b); err != nil {
		t.Fatalf("Send = %v, want nil", err)
	}
}

// sendFails wants Send to fail with kind and with every one of texts.
func sendFails(t *testing.T, s sinks.Sink, b sinks.Batch, kind sinks.Kind, texts ...string) *sinks.Failure {
	t.Helper()
	err := s.Send(context.Background(), b)
	if err == nil {
		t.Fatalf("Send = nil, want a failure of kind %v", kind)
	}
	f := sinks.FailureOf(err)
	if f.Kind != kind {
		t.Errorf("Send failed as %v (%v), want %v", f.Kind, err, kind)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("Send failed with %q, want it to contain %q", err, text)
		}
	}
	return f
}

// sendUntilTaken offers b as the delivery loop does, until it is taken.
func sendUntilTaken(t *testing.T, s sinks.Sink, b sinks.Batch) {
	t.Helper()
	await.Until(t, "Send to be taken", func() bool {
		err := s.Send(context.Background(), b)
		if f := sinks.FailureOf(err); f != nil && f.Kind != sinks.Transient {
			t.Fatalf("Send failed as %v (%v), want %v", f.Kind, err, sinks.Transient)
		}
		return err == nil
	})
}

// count is how many messages the partitions of a topic hold together.
func (b *brokers) count(topic string) int {
	n := 0
	for _, p := range b.PartitionInfos(topic) {
		n += int(p.HighWatermark)
	}
	return n
}
