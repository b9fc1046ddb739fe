package kafkatest

import (
	"context"
	"fmt"
	"strconv"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/docket-export/docket/test/internal/poll"
)

// SetMaxMessageBytes bounds the batches of records that topic takes, and returns
// when the node of a cluster of one goes by it.
func (c *Cluster) SetMaxMessageBytes(topic string, n int) {
	c.t.Helper()
	c.setTopic(topic, "max.message.bytes", n)
	// A node tells of a change before it goes by it, but takes up one after the other:
	// when it tells of another, whatever that is about, it goes by the first.
	c.setTopic(topic, "file.delete.delay.ms", n)
}

// setTopic changes a setting of topic, and returns when a node tells of it.
func (c *Cluster) setTopic(topic, name string, n int) {
	c.t.Helper()
	value := strconv.Itoa(n)
	c.admin(func(ctx context.Context, admin *kadm.Client) error {
		changed, err := admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Name: name, Value: &value}}, topic)
		if err != nil {
			return err
		}
		for _, r := range changed {
			if r.Err != nil {
				return fmt.Errorf("topic %s: %w %s", r.Name, r.Err, r.ErrMessage)
			}
		}
		return nil
	})
	c.admin(func(ctx context.Context, admin *kadm.Client) error {
		told, err := admin.DescribeTopicConfigs(ctx, topic)
		if err != nil {
			return err
		}
		of, err := told.On(topic, nil)
		if err != nil {
			return err
		}
		if of.Err != nil {
			return of.Err
		}
		for _, setting := range of.Configs {
			if setting.Key == name && setting.MaybeValue() == value {
				return nil
			}
		}
		return fmt.Errorf("%s of topic %s is not %s yet", name, topic, value)
	})
}

// SetProduceQuota bounds what clients named clientID may write to one node, in
// bytes a second. A client that has written more is told to wait.
func (c *Cluster) SetProduceQuota(clientID string, bytesPerSecond int) {
	c.t.Helper()
	c.admin(func(ctx context.Context, admin *kadm.Client) error {
		changed, err := admin.AlterClientQuotas(ctx, []kadm.AlterClientQuotaEntry{{
			Entity: kadm.ClientQuotaEntity{{Type: "client-id", Name: &clientID}},
			Ops:    []kadm.AlterClientQuotaOp{{Key: "producer_byte_rate", Value: float64(bytesPerSecond)}},
		}})
		if err != nil {
			return err
		}
		for _, q := range changed {
			if q.Err != nil {
				return fmt.Errorf("quota of %v: %w %s", q.Entity, q.Err, q.ErrMessage)
			}
		}
		return nil
	})
}

// Leader returns the node, from 1, that leads a partition of topic.
func (c *Cluster) Leader(topic string, partition int32) int {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), clientTimeout)
	defer cancel()
	admin := kadm.NewClient(c.client())
	defer admin.Close()
	leader := 0
	err := poll.Until(clientTimeout, func() error {
		topics, err := admin.ListTopics(ctx, topic)
		if err != nil {
			return err
		}
		p := topics[topic].Partitions[partition]
		if p.Err != nil {
			return p.Err
		}
		if p.Leader < 1 {
			return fmt.Errorf("partition %d of topic %s has no leader", partition, topic)
		}
		leader = int(p.Leader)
		return nil
	})
	if err != nil {
		c.t.Fatalf("ask for a leader: %v", err)
	}
	return leader
}

// Ends returns, by partition, the offset that follows the last record of topic.
func (c *Cluster) Ends(topic string) map[int32]int64 {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), clientTimeout)
	defer cancel()
	admin := kadm.NewClient(c.client())
	defer admin.Close()
	return c.ends(ctx, admin, topic, 1)
}

// admin makes a change of the cluster, or asks it, again while that fails: a node that
// has just started does not know its controller yet.
func (c *Cluster) admin(change func(context.Context, *kadm.Client) error) {
	c.t.Helper()
	admin := kadm.NewClient(c.client())
	defer admin.Close()
	err := poll.Until(clientTimeout, func() error {
		ctx, cancel := context.WithTimeout(c.t.Context(), clientTimeout)
		defer cancel()
		return change(ctx, admin)
	})
	if err != nil {
		c.t.Fatalf("change or ask Kafka: %v", err)
	}
}
