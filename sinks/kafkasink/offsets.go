package kafkasink

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

// offsetFetch asks a broker for the offsets of a group. kafka-go can ask up to version 5,
// and not whether a transaction is about to change one, which came with version 7.
//
// A request of version 7 is, after its length, key, version, correlation and the name of
// the client:
//
//	tags                       0
//	name of the group
//	number of topics           0: all
//	  name of the topic
//	  number of partitions     and the partitions, 4 bytes each
//	  tags                     0
//	whether offsets must be stable  1
//	tags                       0
//
// Here a number of things is one more than it is, in seven bits a byte, and so is the
// length before a name.
type offsetFetch struct {
	group    string
	topic    string // of the partition 0 that is asked for; empty: all topics and partitions
	stable   bool
	node     int32
	clientID string
	tooOld   bool // the broker, for version 7

	found []offset // the answer
	code  int16    // of the answer, or of one of the offsets
}

// offset is what a group has for partition 0 of a topic.
type offset struct {
	topic    string
	next     int64
	metadata string
}

const (
	offsetFetchVersion = 7
	// mostOffsets bounds an answer, in bytes: a group of docket's has an offset or two.
	mostOffsets = 1 << 20
)

var (
	_ protocol.BrokerMessage = (*offsetFetch)(nil)
	_ protocol.RawExchanger  = (*offsetFetch)(nil)
)

// ApiKey implements protocol.Message.
func (*offsetFetch) ApiKey() protocol.ApiKey { return protocol.OffsetFetch }

// Broker implements protocol.BrokerMessage.
func (f *offsetFetch) Broker(cluster protocol.Cluster) (protocol.Broker, error) {
	return brokerOf(cluster, f.node)
}

// Required implements protocol.RawExchanger. kafka-go knows of no version of OffsetFetch that
// is new enough. Version 3 of TxnOffsetCommit came with it.
func (f *offsetFetch) Required(versions map[protocol.ApiKey]int16) bool {
	f.tooOld = versions[protocol.TxnOffsetCommit] < 3
	return true
}

// RawExchange implements protocol.RawExchanger.
func (f *offsetFetch) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	if f.tooOld {
		return nil, errNoStableOffsets
	}
	if _, err := rw.Write(f.request()); err != nil {
		return nil, err
	}
	var size [4]byte
	if _, err := io.ReadFull(rw, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > mostOffsets {
		return nil, fmt.Errorf("the broker's answer about offsets has %d bytes", n)
	}
	answer := make([]byte, n)
	if _, err := io.ReadFull(rw, answer); err != nil {
		return nil, err
	}
	return f, f.read(answer)
}

var errNoStableOffsets = fmt.Errorf("delivery: ExactlyOnce needs Kafka 2.5 or later: %w", kafka.UnsupportedVersion)

func (f *offsetFetch) request() []byte {
	b := binary.BigEndian.AppendUint16(make([]byte, 4), uint16(protocol.OffsetFetch))
	b = binary.BigEndian.AppendUint16(b, offsetFetchVersion)
	b = binary.BigEndian.AppendUint32(b, correlation)
	b = append(appendName(b, f.clientID), 0)
	b = appendCompact(b, f.group)
	if f.topic == "" {
		b = append(b, 0)
	} else {
		b = appendCompact(append(b, 1+1), f.topic)
		b = append(b, 1+1, 0, 0, 0, 0, 0)
	}
	if f.stable {
		b = append(b, 1, 0)
	} else {
		b = append(b, 0, 0)
	}
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

func appendCompact(b []byte, name string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(name)+1)), name...)
}

// read takes the answer, which is:
//
//	correlation                4
//	tags
//	milliseconds of a pause    4
//	number of topics
//	  name of the topic
//	  number of partitions
//	    partition              4
//	    offset                 8  -1: none
//	    leader's epoch         4
//	    metadata                  a length of 0: none
//	    code of an error       2
//	    tags
//	  tags
//	code of an error           2
//	tags
func (f *offsetFetch) read(answer []byte) error {
	r := answerReader{rest: answer}
	if r.number(4) != correlation {
		return errors.New("the broker's answer belongs to another request")
	}
	r.tags()
	r.number(4)
	for range r.count() {
		topic := r.name()
		for range r.count() {
			o := offset{topic: topic}
			partition := r.number(4)
			o.next = int64(r.number(8))
			r.number(4)
			o.metadata = r.name()
			if code := int16(r.number(2)); code != 0 {
				f.code = code
			}
			r.tags()
			if partition == 0 && o.next >= 0 && !r.short {
				f.found = append(f.found, o)
			}
		}
		r.tags()
	}
	if code := int16(r.number(2)); code != 0 {
		f.code = code
	}
	r.tags()
	if r.short {
		return errors.New("the broker's answer about offsets ends too early")
	}
	return nil
}

// answerReader reads an answer from its beginning. Behind its end there are zeros.
type answerReader struct {
	rest  []byte
	short bool // the end has been passed
}

func (r *answerReader) take(n uint64) []byte {
	if n > uint64(len(r.rest)) {
		r.rest, r.short = nil, true
		return nil
	}
	taken := r.rest[:n]
	r.rest = r.rest[n:]
	return taken
}

// number is one of size bytes.
func (r *answerReader) number(size uint64) uint64 {
	var n uint64
	for _, b := range r.take(size) {
		n = n<<8 | uint64(b)
	}
	return n
}

func (r *answerReader) uvarint() uint64 {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 {
		r.rest, r.short = nil, true
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

// count is how many of something follow. Each of them has a byte at least.
func (r *answerReader) count() uint64 {
	n := r.uvarint()
	if n > uint64(len(r.rest)) {
		r.rest, r.short = nil, true
	}
	if n == 0 || r.short {
		return 0
	}
	return n - 1
}

func (r *answerReader) name() string { return string(r.take(r.count())) }

func (r *answerReader) tags() {
	for n := r.uvarint(); n > 0 && !r.short; n-- {
		r.uvarint()
		r.take(r.uvarint())
	}
}

// groupOffsets reads what group has at its coordinator node. Stable ones are no longer about
// to be changed by a transaction: until then there is kafka.UnstableOffsetCommit.
//
// A coordinator that is asked for all offsets leaves out one that has only been written
// in such a transaction. It is asked for that of topic once more, by its name.
func (k *cluster) groupOffsets(ctx context.Context, node int32, group, topic string, stable bool) ([]offset, error) {
	all, err := k.fetchOffsets(ctx, offsetFetch{group: group, stable: stable, node: node})
	if err != nil || !stable {
		return all, err
	}
	named, err := k.fetchOffsets(ctx, offsetFetch{group: group, topic: topic, stable: stable, node: node})
	return append(all, named...), err
}

func (k *cluster) fetchOffsets(ctx context.Context, f offsetFetch) ([]offset, error) {
	f.clientID = k.transport.ClientID
	if _, err := k.exchange(ctx, &f); err != nil {
		return nil, err
	}
	if code := kafka.Error(f.code); code != 0 && code != kafka.GroupIdNotFound {
		return nil, code
	}
	return f.found, nil
}
