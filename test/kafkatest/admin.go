package kafkatest

import (
	"context"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/docket-export/docket/test/internal/poll"
)

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
