package fakekafka

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func readAnswer(r io.Reader, req kmsg.Request) (kmsg.Response, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	b := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, err
	}
	res := req.ResponseKind()
	return res, parseAnswer(b, res)
}

// parseAnswer reads b, an answer without its length.
func parseAnswer(b []byte, res kmsg.Response) error {
	r := kbin.Reader{Src: b}
	r.Int32() // the correlation
	if res.IsFlexible() {
		kmsg.SkipTags(&r)
	}
	return res.ReadFrom(r.Src)
}

// Record is one that consumers see.
type Record struct {
	Value   []byte
	Headers map[string]string
}

// Committed returns the records of a partition as a consumer with read_committed sees them.
// It fails when a transaction is open, behind which such a consumer would wait.
func (c *Cluster) Committed(topic string, partition int32) ([]Record, error) {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.ReplicaID, req.SessionEpoch, req.MaxBytes, req.IsolationLevel = 11, -1, -1, 1<<30, 1
	rp := kmsg.NewFetchRequestTopicPartition()
	rp.Partition, rp.PartitionMaxBytes = partition, 1<<30
	req.Topics = []kmsg.FetchRequestTopic{{Topic: topic, Partitions: []kmsg.FetchRequestTopicPartition{rp}}}
	answer, err := c.call(c.addressOf(c.LeaderFor(topic, partition)), req)
	if err != nil {
		return nil, err
	}
	p := answer.(*kmsg.FetchResponse).Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
		return nil, err
	}
	if p.LastStableOffset != p.HighWatermark {
		return nil, fmt.Errorf("%s/%d has a transaction open from offset %d to %d", topic, partition, p.LastStableOffset, p.HighWatermark)
	}
	return committedOf(p.RecordBatches, p.AbortedTransactions)
}

// committedOf are the records of batches that are not of transactions which were aborted.
func committedOf(batches []byte, aborted []kmsg.FetchResponseTopicPartitionAbortedTransaction) ([]Record, error) {
	var records []Record
	open := map[int64]bool{} // producers in a transaction that will be aborted
	for len(batches) > 0 {
		size := 12 + int(binary.BigEndian.Uint32(batches[8:]))
		var b kmsg.RecordBatch
		if err := b.ReadFrom(batches[:size]); err != nil {
			return nil, err
		}
		batches = batches[size:]
		aborted = slices.DeleteFunc(aborted, func(a kmsg.FetchResponseTopicPartitionAbortedTransaction) bool {
			begins := a.FirstOffset <= b.FirstOffset
			if begins {
				open[a.ProducerID] = true
			}
			return begins
		})
		const transactional, control = 1 << 4, 1 << 5
		switch {
		case b.Attributes&control != 0:
			delete(open, b.ProducerID)
			continue
		case b.Attributes&transactional != 0 && open[b.ProducerID]:
			continue
		}
		rest := b.Records
		for range b.NumRecords {
			length, n := binary.Varint(rest)
			var r kmsg.Record
			if err := r.ReadFrom(rest[:n+int(length)]); err != nil {
				return nil, err
			}
			rest = rest[n+int(length):]
			record := Record{Value: r.Value, Headers: map[string]string{}}
			for _, h := range r.Headers {
				record.Headers[h.Key] = string(h.Value)
			}
			records = append(records, record)
		}
	}
	return records, nil
}

// offsets are those of a group.
func (c *Cluster) offsets(group string) (*kmsg.OffsetFetchResponse, error) {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Version, req.Group = 7, group
	answer, err := c.call(c.addressOf(c.CoordinatorFor(group)), req)
	if err != nil {
		return nil, err
	}
	res := answer.(*kmsg.OffsetFetchResponse)
	if res.ErrorCode == kerr.GroupIDNotFound.Code {
		return noOffsets(req, 0), nil
	}
	return res, kerr.ErrorForCode(res.ErrorCode)
}

// Offset is what a group has committed for a partition, -1 when that is nothing.
func (c *Cluster) Offset(group, topic string, partition int32) (int64, error) {
	res, err := c.offsets(group)
	if err != nil {
		return 0, err
	}
	for _, t := range res.Topics {
		for _, p := range t.Partitions {
			if t.Topic == topic && p.Partition == partition {
				return p.Offset, nil
			}
		}
	}
	return -1, nil
}
