package kafkasink

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// offsetFetch asks a broker for the offsets of a group. kafka-go can ask up to version 5,
// and not whether a transaction is about to change one, which came with version 7.
type offsetFetch struct {
	kmsg.OffsetFetchRequest
	node     int32
	clientID string
	tooOld   bool // the broker, for version 7

	answer kmsg.OffsetFetchResponse
}

// offset is what a group has for partition 0 of a topic.
type offset struct {
	topic    string
	next     int64
	metadata string
}

const (
	offsetFetchVersion = 7
	// mostOffsets bounds an answer, in bytes: a group of docket's has an offset or two, of 2 KiB each. A list
	// in it takes up to 64 times as much memory.
	mostOffsets = 32 << 10
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
	request := kmsg.NewRequestFormatter(kmsg.FormatterClientID(f.clientID)).AppendRequest(nil, &f.OffsetFetchRequest, correlation)
	if _, err := rw.Write(request); err != nil {
		return nil, err
	}
	var head [9]byte // the length of what follows, the correlation, and no tags
	if _, err := io.ReadFull(rw, head[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(head[:]) + 4 - uint32(len(head))
	if size > mostOffsets || head[8] != 0 {
		return nil, errors.New("the broker's answer about offsets is too long, or has tags")
	}
	answer := make([]byte, size)
	if _, err := io.ReadFull(rw, answer); err != nil {
		return nil, err
	}
	f.answer.SetVersion(offsetFetchVersion)
	return f, f.answer.ReadFrom(answer)
}

var errNoStableOffsets = fmt.Errorf("delivery: ExactlyOnce needs Kafka 2.5 or later: %w", kafka.UnsupportedVersion)

// groupOffsets reads what group has at its coordinator node. Stable ones are no longer about
// to be changed by a transaction: until then there is kafka.UnstableOffsetCommit.
//
// A coordinator that is asked for all offsets leaves out one that has only been written
// in such a transaction. It is asked for that of topic once more, by its name.
func (k *cluster) groupOffsets(ctx context.Context, node int32, group, topic string, stable bool) ([]offset, error) {
	all, err := k.fetchOffsets(ctx, node, group, stable, nil)
	if err != nil || !stable {
		return all, err
	}
	named, err := k.fetchOffsets(ctx, node, group, stable, []kmsg.OffsetFetchRequestTopic{{Topic: topic, Partitions: []int32{0}}})
	return append(all, named...), err
}

func (k *cluster) fetchOffsets(ctx context.Context, node int32, group string, stable bool, topics []kmsg.OffsetFetchRequestTopic) ([]offset, error) {
	f := &offsetFetch{OffsetFetchRequest: kmsg.NewOffsetFetchRequest(), node: node, clientID: k.transport.ClientID}
	f.SetVersion(offsetFetchVersion)
	f.Group, f.RequireStable, f.Topics = group, stable, topics // no topics: all
	if _, err := k.exchange(ctx, f); err != nil {
		return nil, err
	}
	code := kafka.Error(f.answer.ErrorCode)
	var found []offset
	for _, t := range f.answer.Topics {
		for _, p := range t.Partitions {
			if p.ErrorCode != 0 {
				code = kafka.Error(p.ErrorCode)
			}
			if p.Partition != 0 || p.Offset < 0 {
				continue
			}
			o := offset{topic: t.Topic, next: p.Offset}
			if p.Metadata != nil {
				o.metadata = *p.Metadata
			}
			found = append(found, o)
		}
	}
	if code != 0 && code != kafka.GroupIdNotFound {
		return nil, code
	}
	return found, nil
}
