package kafkasink

import (
	"context"
	"strconv"

	"github.com/segmentio/kafka-go"
)

const (
	// defaultMaxBytes is the max.message.bytes of a topic where nobody has set
	// it.
	defaultMaxBytes = 1048588
	// mostBytes bounds a request where a topic takes more: so much can be a
	// record of docket, and brokers drop connections with requests of 100 MB.
	mostBytes = 16 << 20
)

// The settings of a topic, by the names that brokers have for them.
const (
	maxMessage = "max.message.bytes"
	minInSync  = "min.insync.replicas"
)

// learnLimits asks each cluster once how much the topic takes, so that requests are as large as
// may be and none is refused for its size. That nobody answers, or that this client is not
// permitted to ask, is no failure: the default has to do, and the brokers have the last word anyway.
func (s *sink) learnLimits(ctx context.Context) {
	t := s.topic
	if t.asked == s.cluster {
		return
	}
	res, err := s.cluster.client.DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{
		Resources: []kafka.DescribeConfigRequestResource{{
			ResourceType: kafka.ResourceTypeTopic,
			ResourceName: t.name,
			ConfigNames:  []string{maxMessage, minInSync},
		}},
	})
	if ctx.Err() != nil {
		return
	}
	t.asked, t.maxBytes = s.cluster, defaultMaxBytes
	if err != nil || len(res.Resources) != 1 {
		return
	}
	for _, entry := range res.Resources[0].ConfigEntries { // none when it is not permitted
		n, err := strconv.Atoi(entry.ConfigValue)
		if err != nil {
			continue
		}
		switch entry.ConfigName {
		case maxMessage:
			t.maxBytes = n
		case minInSync:
			s.warnOfLoss(n)
		}
	}
}

// warnOfLoss says once what records of the topic may be lost by, although the brokers
// have accepted them.
func (s *sink) warnOfLoss(minInSyncReplicas int) {
	t := s.topic
	if t.warned || minInSyncReplicas > 1 {
		return
	}
	t.warned = true
	if t.replicas == 1 {
		s.log.Warn("the topic has one replica: its records are lost with the disk of their broker",
			"topic", t.name)
		return
	}
	s.log.Warn("min.insync.replicas is 1: one broker is enough to accept a record, and the record can be lost with that broker; set it to 2",
		"topic", t.name, "replicas", t.replicas)
}

// room is how many bytes the records of one request to t may have.
func (t *topic) room() int { return min(t.maxBytes, mostBytes) - batchHeader }

// MemoryBytes is the most memory that the sink takes, without the batch that it is given:
// the batch once more as requests, or twice if compressed, what brokers answer, and the
// metadata that they answered before.
func (c *Config) MemoryBytes(batch int64) int64 {
	const connections = 256 << 10
	answers := int64(2 * answerBytes)
	if c.Transacts() {
		answers += 64 * mostOffsets
	}
	if c.Compression == "" || c.Compression == "none" {
		return connections + answers + batch*5/4
	}
	return connections + answers + batch*9/4
}
