package kafkasink

import (
	"context"
	"strconv"
	"time"

	"github.com/segmentio/kafka-go"
)

const (
	// defaultMaxBytes is the max.message.bytes of a topic where nobody has set
	// it.
	defaultMaxBytes = 1048588
	// mostBytes bounds a request where a topic takes more: so much can be a
	// record of docket, and brokers drop connections with requests of 100 MB.
	mostBytes = 16 << 20
	// askPause is how long a question about limits that got no answer is not
	// asked again. There are brokers, and proxies, that do not know it.
	askPause = time.Minute
)

// The settings of a topic, by the names that brokers have for them.
const (
	maxMessage = "max.message.bytes"
	minInSync  = "min.insync.replicas"
)

// learnLimits asks once how much the topic takes, and again when there is a reason. That
// nobody answers, or that this client is not permitted to ask, is no failure:
// the default has to do, and the brokers have the last word anyway.
func (s *sink) learnLimits(ctx context.Context) {
	if t := s.topic; !t.asked && !time.Now().Before(t.askAt) {
		s.askLimits(ctx)
	}
}

func (s *sink) askLimits(ctx context.Context) {
	t := s.topic
	t.known, t.confirmed = false, true
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
	if err != nil || len(res.Resources) != 1 {
		t.askAt = time.Now().Add(askPause)
		return
	}
	t.asked = true
	t.maxBytes = defaultMaxBytes
	for _, entry := range res.Resources[0].ConfigEntries { // none when it is not permitted
		n, err := strconv.Atoi(entry.ConfigValue)
		if err != nil {
			continue
		}
		switch entry.ConfigName {
		case maxMessage:
			t.maxBytes, t.known = n, true
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

// isTooLarge says whether the topic is sure not to take r. It asks for the limit again
// before it says so. With compression nobody knows before a broker has answered.
func (s *sink) isTooLarge(ctx context.Context, r *record) bool {
	t := s.topic
	if s.codec != 0 || !t.known || t.fits(r) {
		return false
	}
	if !t.confirmed {
		s.askLimits(ctx)
	}
	return t.known && !t.fits(r)
}

// fits says whether r alone is within the limit, uncompressed.
func (t *topic) fits(r *record) bool { return r.alone() <= t.maxBytes }

// alone is how many bytes a request takes for r alone, uncompressed, by which a broker
// goes: with its key, its headers and the framing of Kafka.
func (r *record) alone() int { return batchHeader + sized(r.body(1)) }
