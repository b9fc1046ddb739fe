package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/docket-export/docket/test/internal/poll"
)

// clientTimeout is far beyond what a client does here; all of it takes well under a
// second on a cluster that serves.
const clientTimeout = 5 * time.Minute

// readTimeout leaves room for a million records.
const readTimeout = 5 * time.Minute

// CreateTopic makes a topic and returns when every partition can be written to.
func (c *Cluster) CreateTopic(name string, partitions, replication int) {
	c.t.Helper()
	tried := false
	c.admin(func(ctx context.Context, admin *kadm.Client) error {
		created, err := admin.CreateTopic(ctx, int32(partitions), int16(replication), nil, name)
		if tried && errors.Is(err, kerr.TopicAlreadyExists) {
			return nil // by the try before, whose answer has not come
		}
		tried = true
		if err != nil {
			return fmt.Errorf("create topic %s: %w %s", name, err, created.ErrMessage)
		}
		return nil
	})
	ctx, cancel := context.WithTimeout(c.t.Context(), clientTimeout)
	defer cancel()
	admin := kadm.NewClient(c.client())
	defer admin.Close()
	if n := len(c.ends(ctx, admin, name, partitions)); n != partitions {
		c.t.Fatalf("topic %s has %d partitions, want %d", name, n, partitions)
	}
}

// ReadAll returns every record of topic that is committed, from the first to the high
// watermark each partition has at the time of the call: partition by partition, in the
// order of their offsets. It waits for transactions that are open.
func (c *Cluster) ReadAll(topic string) []*kgo.Record {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), readTimeout)
	defer cancel()
	admin := kadm.NewClient(c.client())
	defer admin.Close()
	ends := c.ends(ctx, admin, topic, 1)
	partitions := make([][]*kgo.Record, len(ends))
	for partition, end := range ends {
		records, err := c.readPartition(ctx, topic, partition, end)
		if err != nil {
			c.t.Fatal(err)
		}
		partitions[partition] = records
	}
	return slices.Concat(partitions...)
}

// ends returns the high watermark of each partition of topic, which has at least
// so many. It waits until the leaders answer: a node that has just started, or
// has just been told of the topic, says for a moment that it is not the leader.
func (c *Cluster) ends(ctx context.Context, admin *kadm.Client, topic string, atLeast int) map[int32]int64 {
	c.t.Helper()
	ends := make(map[int32]int64)
	err := poll.Until(clientTimeout, func() error {
		listed, err := admin.ListEndOffsets(ctx, topic)
		if err == nil {
			err = listed.Error()
		}
		if err != nil {
			return err
		}
		if n := len(listed[topic]); n < atLeast {
			return fmt.Errorf("%d of its %d partitions are known", n, atLeast)
		}
		for partition, end := range listed[topic] {
			ends[partition] = end.Offset
		}
		return nil
	})
	if err != nil {
		c.t.Fatalf("ask for the end of topic %s: %v", topic, err)
	}
	return ends
}

// CommittedOffset returns what a group has committed for a partition of topic.
func (c *Cluster) CommittedOffset(group, topic string, partition int32) int64 {
	c.t.Helper()
	committed := int64(0)
	c.admin(func(ctx context.Context, admin *kadm.Client) error {
		offsets, err := admin.FetchOffsets(ctx, group)
		if err != nil {
			return err
		}
		o, ok := offsets.Lookup(topic, partition)
		if !ok {
			return fmt.Errorf("group %s has no offset for partition %d of topic %s", group, partition, topic)
		}
		committed = o.At
		return o.Err
	})
	return committed
}

// client connects to the cluster with what all clients here have in common.
func (c *Cluster) client(more ...kgo.Opt) *kgo.Client {
	c.t.Helper()
	client, err := kgo.NewClient(append(more, kgo.SeedBrokers(c.Brokers()...), kgo.Dialer(c.network.Dial))...)
	if err != nil {
		c.t.Fatalf("make a Kafka client: %v", err)
	}
	return client
}

// readPartition returns the records of a partition before the offset end: nothing of a
// test's topic is compacted or expires.
func (c *Cluster) readPartition(ctx context.Context, topic string, partition int32, end int64) ([]*kgo.Record, error) {
	from := map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().AtStart()}}
	// The last offset may be that of a control record, which ends a transaction.
	consumer := c.client(kgo.ConsumePartitions(from), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
	defer consumer.Close()
	var records []*kgo.Record
	for next := int64(0); next < end; {
		fetches := consumer.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, fmt.Errorf("read topic %s, partition %d, to offset %d of %d: %w", topic, partition, next, end, err)
		}
		for _, r := range fetches.Records() {
			next = r.Offset + 1
			if r.Offset < end && !r.Attrs.IsControl() {
				records = append(records, r)
			}
		}
	}
	return records, nil
}
