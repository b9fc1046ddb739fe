package kafkasink

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/produce"
)

// A Produce request of version 3 to 8 to one partition; -1 as a length is none.
//
//	length of what follows     4
//	key of the API             2  0
//	version                    2  as the connection has negotiated it
//	correlation                4  the answer repeats it
//	name of the client            with its length in 2 before it, as all names
//	id of the transactions     2  -1: none
//	acks                       2  -1: all
//	milliseconds for replicas  4
//	topics                     4  1
//	name of the topic
//	partitions                 4  1
//	partition                  4
//	the records
//
// kafka-go can write it too, and copies the records into pages, which it then writes
// one by one. What a request consists of lies in one piece here, and is written as such.
const (
	atVersion     = 6
	atCorrelation = 8

	// The versions that are written like this, and whose answers kafka-go can read.
	oldestProduce, newestProduce = 3, 8
)

// produceHead returns what stands before the records of a request. transactionalID is
// empty without transactions. Length and version are not known yet.
func (k *cluster) produceHead(topic string, partition int, transactionalID string) []byte {
	const none, all = math.MaxUint16, math.MaxUint16 // -1
	size := atCorrelation + 4 + 2 + len(k.transport.ClientID) + 2 + len(transactionalID) + 2 + 4 + 4 + 2 + len(topic) + 4 + 4
	b := binary.BigEndian.AppendUint32(make([]byte, atCorrelation, size), correlation)
	b = appendName(b, k.transport.ClientID)
	if transactionalID == "" {
		b = binary.BigEndian.AppendUint16(b, none)
	} else {
		b = appendName(b, transactionalID)
	}
	b = binary.BigEndian.AppendUint16(b, all)
	// Half of the time, so that the answer of a broker that waits in vain comes in time.
	b = binary.BigEndian.AppendUint32(b, uint32(min(k.client.Timeout/2/time.Millisecond, math.MaxInt32)))
	b = binary.BigEndian.AppendUint32(b, 1)
	b = appendName(b, topic)
	b = binary.BigEndian.AppendUint32(b, 1)
	return binary.BigEndian.AppendUint32(b, uint32(partition))
}

func appendName(b []byte, name string) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(name))), name...)
}

// produceRequest is a request as kafka-go's transport takes it, which finds the
// leader of its partition and a connection to it.
type produceRequest struct {
	topic     string
	partition int
	bytes     []byte // the request, head and records
	version   int16
}

var (
	_ protocol.BrokerMessage = (*produceRequest)(nil)
	_ protocol.RawExchanger  = (*produceRequest)(nil)
)

// ApiKey implements protocol.Message.
func (r *produceRequest) ApiKey() protocol.ApiKey { return protocol.Produce }

// Broker implements protocol.BrokerMessage.
func (r *produceRequest) Broker(cluster protocol.Cluster) (protocol.Broker, error) {
	topic, ok := cluster.Topics[r.topic]
	if !ok {
		return protocol.Broker{}, protocol.NewErrNoTopic(r.topic)
	}
	partition, ok := topic.Partitions[int32(r.partition)]
	if !ok {
		return protocol.Broker{}, protocol.NewErrNoPartition(r.topic, int32(r.partition))
	}
	broker, ok := cluster.Brokers[partition.Leader]
	if !ok {
		return protocol.Broker{}, protocol.NewErrNoLeader(r.topic, int32(r.partition))
	}
	return broker, nil
}

// Required implements protocol.RawExchanger.
func (r *produceRequest) Required(versions map[protocol.ApiKey]int16) bool {
	r.version = versions[protocol.Produce]
	return true
}

// RawExchange implements protocol.RawExchanger.
func (r *produceRequest) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	if r.version < oldestProduce || r.version > newestProduce {
		return nil, fmt.Errorf("version %d of Produce: %w", r.version, kafka.UnsupportedVersion)
	}
	binary.BigEndian.PutUint32(r.bytes, uint32(len(r.bytes)-4))
	binary.BigEndian.PutUint16(r.bytes[atVersion:], uint16(r.version))
	if _, err := rw.Write(r.bytes); err != nil {
		return nil, err
	}
	answers, answer, err := protocol.ReadResponse(rw, protocol.Produce, r.version)
	if err == nil && answers != correlation {
		err = errors.New("the broker's answer belongs to another request")
	}
	return answer, err
}

// produced is what a broker says of a request.
type produced struct {
	err      error         // nil: all in-sync replicas have the records
	throttle time.Duration // what the broker asks for
}

// maxThrottle bounds the pause: brokers ask for seconds, and a wrong number must not silence
// the sink for weeks.
const maxThrottle = time.Hour

// produce makes one request. Its bytes are the caller's again when err is nil.
func (k *cluster) produce(ctx context.Context, r *produceRequest) (produced, error) {
	ctx, cancel := context.WithTimeout(ctx, k.client.Timeout)
	defer cancel()
	res, err := k.transport.RoundTrip(ctx, k.client.Addr, r)
	if err != nil {
		return produced{}, err
	}
	answer := res.(*produce.Response)
	if len(answer.Topics) != 1 || len(answer.Topics[0].Partitions) != 1 {
		return produced{}, errors.New("the broker's answer is not about the one partition that was written to")
	}
	partition := &answer.Topics[0].Partitions[0]
	p := produced{throttle: min(time.Duration(answer.ThrottleTimeMs)*time.Millisecond, maxThrottle)}
	if partition.ErrorCode != 0 {
		p.err = codeError(partition.ErrorCode, partition.ErrorMessage)
		for _, e := range partition.RecordErrors[:min(1, len(partition.RecordErrors))] {
			p.err = fmt.Errorf("%w: %s", p.err, e.BatchIndexErrorMessage)
		}
	}
	return p, nil
}
