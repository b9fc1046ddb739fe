package kafkasink

import (
	"context"
	"errors"
	"strconv"

	"github.com/segmentio/kafka-go"

	"github.com/docket-export/docket/sinks"
)

// create makes t with the numbers of the configuration. That it exists already
// is no error, and leaves it as it is.
func (s *sink) create(ctx context.Context, t *topic) error {
	if t.created {
		return sinks.Failf(sinks.Misconfigured,
			"topic %q has been deleted since docket created it: create the topic, or restart docket to create it again", t.name)
	}
	made, err := s.requestTopic(ctx, t, false)
	if made {
		t.created = true
		s.log.Info("created the topic", "topic", t.name)
	}
	return err
}

// requestTopic asks the brokers to create t, or with dry whether they would. made
// is false when there is an error, or the topic already.
func (s *sink) requestTopic(ctx context.Context, t *topic, dry bool) (made bool, err error) {
	res, err := s.cluster.client.CreateTopics(ctx, &kafka.CreateTopicsRequest{
		Topics: []kafka.TopicConfig{{
			Topic:             t.name,
			NumPartitions:     s.config.Partitions,
			ReplicationFactor: s.config.ReplicationFactor,
			ConfigEntries:     []kafka.ConfigEntry{{ConfigName: minInSync, ConfigValue: strconv.Itoa(s.config.MinInSyncReplicas)}},
		}},
		ValidateOnly: dry,
	})
	if err != nil {
		err = cause(err)
	} else {
		err = res.Errors[t.name]
	}
	if err == nil || errors.Is(err, kafka.TopicAlreadyExists) {
		return err == nil, nil
	}
	var code kafka.Error
	errors.As(err, &code)
	switch code {
	case kafka.TopicAuthorizationFailed, kafka.ClusterAuthorizationFailed:
		return false, sinks.Failf(sinks.Misconfigured, "create topic %q: %w: permit this client to create it, or create it by hand", t.name, err)
	case kafka.InvalidReplicationFactor, kafka.InvalidPartitionNumber, kafka.InvalidConfiguration, kafka.InvalidRequest:
		return false, sinks.Failf(sinks.Misconfigured,
			"create topic %q: %w: check kafka.partitions, kafka.replicationFactor and kafka.minInSyncReplicas", t.name, err)
	}
	return false, s.failf(err, "create topic %q", t.name)
}

// lookAgain looks for a topic that has just been created.
func (s *sink) lookAgain(ctx context.Context, t *topic) error {
	res, err := s.cluster.metadata(ctx, []string{t.name})
	if err != nil {
		return s.failf(err, "ask the brokers for topic %q", t.name)
	}
	missing, err := s.look(t, res.Topics[0])
	if missing {
		return sinks.Failf(sinks.Transient, "topic %q has been created, and this broker does not know it yet", t.name)
	}
	return err
}
