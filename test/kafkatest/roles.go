package kafkatest

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Controller returns the node, from 1, that leads the controllers.
func (c *Cluster) Controller() int {
	c.t.Helper()
	client := c.client()
	defer client.Close()
	return c.role("the controller", func(ctx context.Context, _ *kadm.Client) (int32, error) {
		request := kmsg.NewPtrDescribeQuorumRequest()
		topic := kmsg.NewDescribeQuorumRequestTopic()
		topic.Topic = "__cluster_metadata"
		topic.Partitions = append(topic.Partitions, kmsg.NewDescribeQuorumRequestTopicPartition())
		request.Topics = append(request.Topics, topic)
		answer, err := request.RequestWith(ctx, client)
		if err == nil {
			err = kerr.ErrorForCode(answer.ErrorCode)
		}
		if err != nil {
			return 0, err
		}
		if len(answer.Topics) != 1 || len(answer.Topics[0].Partitions) != 1 {
			return 0, fmt.Errorf("asked for one partition of the quorum, got %+v", answer.Topics)
		}
		quorum := answer.Topics[0].Partitions[0]
		return quorum.LeaderID, kerr.ErrorForCode(quorum.ErrorCode)
	})
}

// TransactionCoordinator returns the node, from 1, that coordinates the transactions of
// a transactional id.
func (c *Cluster) TransactionCoordinator(id string) int {
	c.t.Helper()
	return c.role("a transaction coordinator", func(ctx context.Context, admin *kadm.Client) (int32, error) {
		found := admin.FindTxnCoordinators(ctx, id)[id]
		return found.NodeID, found.Err
	})
}

// role is the number of the node that an answer names, asked for until there is one.
func (c *Cluster) role(what string, ask func(context.Context, *kadm.Client) (int32, error)) int {
	c.t.Helper()
	node := int32(0)
	c.admin(func(ctx context.Context, admin *kadm.Client) error {
		var err error
		if node, err = ask(ctx, admin); err != nil {
			return err
		}
		if node < 1 || int(node) > len(c.nodes) {
			return fmt.Errorf("%s is node %d", what, node)
		}
		return nil
	})
	return int(node)
}

// ElectLeaders gives every partition back to its first replica, where that is in sync:
// leaders and coordinators move without a failure.
func (c *Cluster) ElectLeaders() {
	c.t.Helper()
	moved := 0
	c.admin(func(ctx context.Context, admin *kadm.Client) error {
		elected, err := admin.ElectLeaders(ctx, kadm.ElectPreferredReplica, nil)
		if err != nil {
			return err
		}
		for _, topic := range elected {
			for _, partition := range topic {
				if partition.Err == nil {
					moved++
				} else if !errors.Is(partition.Err, kerr.ElectionNotNeeded) && !errors.Is(partition.Err, kerr.PreferredLeaderNotAvailable) {
					return fmt.Errorf("elect the leader of partition %d of topic %s: %w", partition.Partition, partition.Topic, partition.Err)
				}
			}
		}
		return nil
	})
	c.t.Logf("%d partitions have another leader", moved)
}
