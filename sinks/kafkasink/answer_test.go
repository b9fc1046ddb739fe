package kafkasink

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/addoffsetstotxn"
	"github.com/segmentio/kafka-go/protocol/addpartitionstotxn"
	"github.com/segmentio/kafka-go/protocol/apiversions"
	"github.com/segmentio/kafka-go/protocol/describeconfigs"
	"github.com/segmentio/kafka-go/protocol/endtxn"
	"github.com/segmentio/kafka-go/protocol/findcoordinator"
	"github.com/segmentio/kafka-go/protocol/initproducerid"
	"github.com/segmentio/kafka-go/protocol/metadata"
	"github.com/segmentio/kafka-go/protocol/produce"
	"github.com/segmentio/kafka-go/protocol/saslauthenticate"
	"github.com/segmentio/kafka-go/protocol/saslhandshake"
	"github.com/segmentio/kafka-go/protocol/txnoffsetcommit"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// decodedBytes bounds what kafka-go may allocate for an answer of some hundred bytes that
// has been checked.
const decodedBytes = 1 << 20

// answerTypes are what kafka-go decodes the answers to docket's requests into.
var answerTypes = map[protocol.ApiKey]reflect.Type{
	protocol.Produce:            reflect.TypeFor[produce.Response](),
	protocol.Metadata:           reflect.TypeFor[metadata.Response](),
	protocol.FindCoordinator:    reflect.TypeFor[findcoordinator.Response](),
	protocol.SaslHandshake:      reflect.TypeFor[saslhandshake.Response](),
	protocol.SaslAuthenticate:   reflect.TypeFor[saslauthenticate.Response](),
	protocol.ApiVersions:        reflect.TypeFor[apiversions.Response](),
	protocol.DescribeConfigs:    reflect.TypeFor[describeconfigs.Response](),
	protocol.InitProducerId:     reflect.TypeFor[initproducerid.Response](),
	protocol.AddPartitionsToTxn: reflect.TypeFor[addpartitionstotxn.Response](),
	protocol.AddOffsetsToTxn:    reflect.TypeFor[addoffsetstotxn.Response](),
	protocol.EndTxn:             reflect.TypeFor[endtxn.Response](),
	protocol.TxnOffsetCommit:    reflect.TypeFor[txnoffsetcommit.Response](),
}

// eachAnswer calls do with an answer to each request of docket in each version, which lists
// two of all that it lists.
func eachAnswer(t testing.TB, do func(a asked, frame []byte)) {
	for key, typ := range answerTypes {
		for version := key.MinVersion(); version <= key.MaxVersion(); version++ {
			message := reflect.New(typ)
			fill(message.Elem())
			var frame bytes.Buffer
			if err := protocol.WriteResponse(&frame, version, 1, message.Interface().(protocol.Message)); err != nil {
				t.Fatalf("write the answer to %s in version %d: %v", key, version, err)
			}
			do(asked{key: key, version: version, correlation: 1}, frame.Bytes())
		}
	}
}

func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				fill(v.Field(i))
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(v.Index(i))
		}
	case reflect.String:
		v.SetString("decisions")
	}
}

// decode has kafka-go read frame, and returns what it allocated for that.
func decode(a asked, frame []byte) (allocated uint64, err error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, _, err = protocol.ReadResponse(bytes.NewReader(frame), a.key, a.version)
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc, err
}

// Every answer that kafka-go can write passes, and with any four bytes of it replaced by a huge
// or negative number, or cut anywhere, it is refused, or costs kafka-go no more than before.
func TestAnswersAreChecked(t *testing.T) {
	refused := map[protocol.ApiKey]bool{}
	eachAnswer(t, func(a asked, frame []byte) {
		if _, err := a.check(frame[answerHead:]); err != nil {
			t.Errorf("the answer to %s in version %d is refused: %v", a.key, a.version, err)
		}
		try := func(frame []byte) {
			if _, err := a.check(frame[answerHead:]); err != nil {
				refused[a.key] = true
			} else if allocated, _ := decode(a, frame); allocated > decodedBytes {
				t.Errorf("the answer %q to %s in version %d has %d bytes allocated", frame, a.key, a.version, allocated)
			}
		}
		for i := answerHead; i+4 <= len(frame); i++ {
			for _, count := range []string{"\x7f\xff\xff\xff", "\xff\xff\xff\xff", "\xff\xff\xff\x7f", "\x80\x00\x00\x00"} {
				try(replaced(frame, i, count))
			}
		}
		for n := answerHead; n < len(frame); n++ {
			cut := bytes.Clone(frame[:n])
			binary.BigEndian.PutUint32(cut, uint32(n-4))
			try(cut)
		}
	})
	for key := range answerTypes {
		if !refused[key] {
			t.Errorf("no answer to %s was refused", key)
		}
	}
}

func replaced(frame []byte, at int, with string) []byte {
	changed := bytes.Clone(frame)
	copy(changed[at:], with)
	return changed
}

// What an answer costs kafka-go is about what check says.
func TestCostOfAnswers(t *testing.T) {
	m := &metadata.Response{Topics: []metadata.ResponseTopic{{Name: testTopic, Partitions: make([]metadata.ResponsePartition, 2000)}}}
	for i := range m.Topics[0].Partitions {
		p := &m.Topics[0].Partitions[i]
		p.PartitionIndex, p.ReplicaNodes, p.IsrNodes = int32(i), []int32{1, 2, 3}, []int32{1, 2, 3}
	}
	var frame bytes.Buffer
	if err := protocol.WriteResponse(&frame, 8, 1, m); err != nil {
		t.Fatal(err)
	}
	a := asked{key: protocol.Metadata, version: 8}
	cost, err := a.check(frame.Bytes()[answerHead:])
	if bound := answerBytes; err != nil || cost > bound {
		t.Errorf("the metadata of 2,000 partitions cost %d bytes of %d, and error %v", cost, bound, err)
	}
	if allocated, err := decode(a, frame.Bytes()); err != nil || allocated > uint64(cost) {
		t.Errorf("kafka-go allocated %d bytes for an answer of %d that was to cost %d, and returned %v", allocated, frame.Len(), cost, err)
	}
}

// Answers that come one after the other leave nothing behind, and those that are under way on
// other connections leave less room.
func TestRoomForAnswers(t *testing.T) {
	d := newDialer(time.Minute, nil, 4<<10)
	open := func() (*conn, net.Conn) {
		here, broker := net.Pipe()
		t.Cleanup(func() { here.Close(); broker.Close() })
		return &conn{Conn: here, raw: here, dialer: d, answered: true}, broker
	}
	exchange := func(c *conn, broker net.Conn, kinds int) error {
		go func() {
			io.CopyN(io.Discard, broker, 17)
			protocol.WriteResponse(broker, 0, 7, &apiversions.Response{ApiKeys: make([]apiversions.ApiKeyResponse, kinds)})
		}()
		if err := protocol.WriteRequest(c, 0, 7, "abc", &apiversions.Request{}); err != nil {
			return err
		}
		_, _, err := protocol.ReadResponse(c, protocol.ApiVersions, 0)
		return err
	}
	one, broker := open()
	for range 100 {
		if err := exchange(one, broker, 30); err != nil {
			t.Fatal(err)
		}
	}
	if err := exchange(one, broker, 100); err == nil || !strings.Contains(err.Error(), "take more than 4096 bytes of memory") {
		t.Errorf("an answer that is too large gave %v", err)
	}
	one.Close()
	if left := d.answers.Load(); left != 0 {
		t.Errorf("%d bytes are taken when no answer is under way", left)
	}
}

// A broker that has answered may send anything later.
func TestLaterAnswers(t *testing.T) {
	for name, answer := range map[string]string{
		"another correlation": "\x00\x00\x00\x0a\x00\x00\x00\x08\x00\x00\x00\x00\x00\x00",
		"a long answer":       "\x7f\xff\xff\xff\x00\x00\x00\x07",
		"a negative length":   "\xff\xff\xff\xff\x00\x00\x00\x07",
		"a length of nothing": "\x00\x00\x00\x00\x00\x00\x00\x07",
		"too many things":     "\x00\x00\x00\x0a\x00\x00\x00\x07\x00\x00\x7f\xff\xff\xff",
	} {
		t.Run(name, func(t *testing.T) {
			here, broker := net.Pipe()
			defer here.Close()
			go func() {
				defer broker.Close()
				io.CopyN(io.Discard, broker, 17)
				io.WriteString(broker, answer)
			}()
			c := &conn{Conn: here, raw: here, dialer: newDialer(time.Minute, nil, 1<<20), answered: true}
			_, err := protocol.RoundTrip(c, 0, 7, "abc", &apiversions.Request{})
			if err == nil || isCut(err) {
				t.Errorf("the exchange gave %v, want an error of the answer", err)
			}
		})
	}
}

// FuzzAnswer has kafka-go decode what check lets through: it must neither panic nor allocate
// more than check has said, twice over.
func FuzzAnswer(f *testing.F) {
	eachAnswer(f, func(a asked, frame []byte) { f.Add(int16(a.key), a.version, frame[answerHead:]) })
	f.Fuzz(func(t *testing.T, key, version int16, answer []byte) {
		a := asked{key: protocol.ApiKey(key), version: version}
		if key < 0 || len(answer) > 1<<20 || version < a.key.MinVersion() || version > a.key.MaxVersion() || answerTypes[a.key] == nil {
			return
		}
		cost, err := a.check(answer)
		if err != nil {
			return
		}
		frame := binary.BigEndian.AppendUint32(nil, uint32(4+len(answer)))
		frame = append(binary.BigEndian.AppendUint32(frame, 1), answer...)
		if allocated, _ := decode(a, frame); allocated > 2*uint64(cost)+64<<10 {
			t.Errorf("kafka-go allocated %d bytes for an answer of %d that was to cost %d", allocated, len(answer), cost)
		}
	})
}

// Of an answer about offsets no more is read than the few of docket's group can have.
func TestOffsetsAreBounded(t *testing.T) {
	for _, head := range []string{"\x00\x10\x00\x00\x00\x00\x00\x00\x00", "\x00\x00\x00\x00\x00\x00\x00\x00\x00", "\x00\x00\x00\x20\x00\x00\x00\x00\x01"} {
		f := &offsetFetch{OffsetFetchRequest: kmsg.NewOffsetFetchRequest()}
		f.SetVersion(offsetFetchVersion)
		_, err := f.RawExchange(struct {
			io.Reader
			io.Writer
		}{strings.NewReader(head), io.Discard})
		if err == nil || isCut(err) {
			t.Errorf("%q: got %v, want an error before the rest is read", head, err)
		}
	}
}
