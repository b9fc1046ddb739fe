package kafkasink

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/produce"

	"github.com/docket-export/docket/config"
)

// wire is a connection: what is written to it, and what it answers.
type wire struct {
	written [][]byte
	answer  io.Reader
}

func (w *wire) Write(p []byte) (int, error) {
	w.written = append(w.written, p)
	return len(p), nil
}

func (w *wire) Read(p []byte) (int, error) { return w.answer.Read(p) }

// requestOf is a request of three records to partition 7 of a topic, in a transaction
// when that has an id.
func requestOf(t *testing.T, transactionalID string) *produceRequest {
	t.Helper()
	c := defaultConfig()
	c.Brokers, c.Topic, c.ClientID, c.Timeout = []string{"localhost:9092"}, "decisions", "docket-test", config.Duration(10*time.Second)
	k, err := newCluster(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.close)
	var set recordSet
	records := recordsOf(batch(1, `{"a":1}`, `{"a":2}`, `{"a":3}`), c)
	as := stamp{time: time.Now(), producer: nobody, sequence: -1, transactional: transactionalID != ""}
	if err := set.encode(k.produceHead("decisions", 7, transactionalID), records, as); err != nil {
		t.Fatal(err)
	}
	return &produceRequest{topic: "decisions", partition: 7, bytes: set.bytes}
}

// exchange has r make its exchange over a connection of a version that gives answer.
func exchange(r *produceRequest, version int16, answer []byte) (*wire, protocol.Message, error) {
	w := &wire{answer: bytes.NewReader(answer)}
	r.Required(map[protocol.ApiKey]int16{protocol.Produce: version})
	m, err := r.RawExchange(w)
	return w, m, err
}

// answerTo is what a broker says, to a request with this correlation.
func answerTo(t *testing.T, version int16, correlation int32) []byte {
	t.Helper()
	var b bytes.Buffer
	err := protocol.WriteResponse(&b, version, correlation, &produce.Response{
		Topics: []produce.ResponseTopic{{Topic: "decisions", Partitions: []produce.ResponsePartition{{Partition: 7, BaseOffset: 42}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// A request is written in one piece, and is what kafka-go reads as such, in every
// version.
func TestProduceRequest(t *testing.T) {
	for version := int16(oldestProduce); version <= newestProduce; version++ {
		transactionalID := ""
		if version%2 == 0 {
			transactionalID = "docket-" + queueID + "-bus"
		}
		r := requestOf(t, transactionalID)
		w, m, err := exchange(r, version, answerTo(t, version, 0))
		if err != nil {
			t.Fatalf("version %d: %v", version, err)
		}
		if got := m.(*produce.Response).Topics[0].Partitions[0].BaseOffset; got != 42 {
			t.Errorf("version %d: the answer has offset %d, want 42", version, got)
		}
		if len(w.written) != 1 {
			t.Fatalf("version %d: %d writes, want 1", version, len(w.written))
		}
		if said := binary.BigEndian.Uint32(w.written[0]); int(said) != len(w.written[0])-4 {
			t.Errorf("version %d: the length says %d where %d bytes follow", version, said, len(w.written[0])-4)
		}
		inVersion, _, client, m, err := protocol.ReadRequest(bytes.NewReader(w.written[0]))
		if err != nil || inVersion != version || client != "docket-test" {
			t.Fatalf("version %d: read as version %d of client %q, %v", version, inVersion, client, err)
		}
		if got := m.(*produce.Request).TransactionalID; got != transactionalID {
			t.Errorf("version %d: the id of the transactions is %q, want %q", version, got, transactionalID)
		}
		checkProduce(t, m.(*produce.Request))
	}
}

func checkProduce(t *testing.T, m *produce.Request) {
	t.Helper()
	if m.Acks != int16(kafka.RequireAll) || m.Timeout != 5000 {
		t.Errorf("acks %d, timeout %d; want all and 5000", m.Acks, m.Timeout)
	}
	if len(m.Topics) != 1 || m.Topics[0].Topic != "decisions" || len(m.Topics[0].Partitions) != 1 || m.Topics[0].Partitions[0].Partition != 7 {
		t.Fatalf("topics %+v, want partition 7 of decisions", m.Topics)
	}
	for n := 1; ; n++ {
		r, err := m.Topics[0].Partitions[0].RecordSet.Records.ReadRecord()
		if errors.Is(err, io.EOF) && n == 4 {
			return
		}
		if err != nil {
			t.Fatalf("record %d: %v, want 3 records", n, err)
		}
		if got, _ := protocol.ReadAll(r.Value); string(got) != `{"a":`+string(rune('0'+n))+`}` {
			t.Errorf("record %d is %s", n, got)
		}
	}
}
