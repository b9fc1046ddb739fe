package kafkasink

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/metadata"

	"github.com/docket-export/docket/decision"
	"github.com/docket-export/docket/decision/rawjson"
	"github.com/docket-export/docket/sinks"
)

// topic is what a sink knows of one topic.
type topic struct {
	name       string
	index      int   // among the topics of the sink
	partitions []int // 0 and up, as a balancer takes them
	replicas   int   // of a partition

	maxBytes int       // of the records of one request, framing included
	known    bool      // maxBytes is what the topic has, and not a guess
	asked    bool      // and there is no reason to ask again
	askAt    time.Time // unless asked: no sooner than this

	sequences []*sequence // of the partitions
	leaders   []int32     // of them

	warned  bool // of what its settings mean for the records
	created bool // by this sink

	// Of the Send that is under way:
	used      bool       // err and shares are of this Send
	confirmed bool       // maxBytes has been asked for in this Send
	counted   bool       // and so have been the partitions
	err       error      // why nothing can be written; a *sinks.Failure
	shares    [][]record // for each partition
}

func newTopics(names []string) []*topic {
	topics := make([]*topic, len(names))
	for i, name := range names {
		topics[i] = &topic{name: name, index: i, maxBytes: defaultMaxBytes}
	}
	return topics
}

// begin makes t ready for a Send.
func (t *topic) begin() {
	t.used, t.confirmed, t.counted, t.err = false, false, false, nil
	for i := range t.shares {
		t.shares[i] = t.shares[i][:0]
	}
}

// topicOf returns the topic for a record. An error means that the record names
// none that it may.
func (s *sink) topicOf(record []byte) (*topic, error) {
	from := s.config.TopicFrom
	if from == nil {
		return s.topics[0], nil
	}
	value := topicValue(record, from.Field)
	if t, ok := s.byName[string(value.Text())]; ok {
		return t, nil
	}
	switch {
	case from.Default != "":
		return s.byName[from.Default], nil
	case value == nil, value.Kind() == rawjson.Null:
		return nil, fmt.Errorf("the record has no field %s for its topic (kafka.topicFrom), and there is no default", from.Field)
	}
	return nil, fmt.Errorf("field %s names the topic %s, which kafka.topicFrom.allow does not list, and there is no default", from.Field, excerpt(string(value)))
}

// topicValue returns the value of a field of record or of its normalized form.
func topicValue(record []byte, path string) rawjson.Value {
	name, ok := strings.CutPrefix(path, decision.NormalizedPrefix)
	if !ok {
		return rawjson.Get(record, path)
	}
	var f form
	text, found := f.field(record, name)
	if !found {
		return nil
	}
	return rawjson.AppendString(nil, text)
}

// learn returns what the brokers say of s.topics, in their order.
func (s *sink) learn(ctx context.Context) ([]metadata.ResponseTopic, error) {
	res, err := s.cluster.metadata(ctx, s.names)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, s.failf(err, "ask the brokers for %s", s.subject())
	}
	return res.Topics, nil
}

// subject names what s writes to.
func (s *sink) subject() string {
	if len(s.names) == 1 {
		return fmt.Sprintf("topic %q", s.names[0])
	}
	return fmt.Sprintf("%d topics", len(s.names))
}

// prepare makes t ready to be written to, or says in t.err why it is not.
func (s *sink) prepare(ctx context.Context, t *topic, m metadata.ResponseTopic) {
	t.used = true
	missing, err := s.look(t, m)
	if missing && s.config.CreateTopic {
		if err = s.create(ctx, t); err == nil {
			err = s.lookAgain(ctx, t)
		}
	}
	if t.err = err; err != nil {
		return
	}
	s.learnLimits(ctx, t)
}

// look takes from m what t is. missing says that there is no such topic, which
// is an error too.
func (s *sink) look(t *topic, m metadata.ResponseTopic) (missing bool, err error) {
	code := kafka.Error(m.ErrorCode)
	switch {
	case code == kafka.UnknownTopicOrPartition:
		// Brokers say the same of a topic that the client may not see.
		return true, sinks.Failf(sinks.Misconfigured,
			"topic %q does not exist on the brokers: create it or correct %s, or permit this client to describe it", t.name, s.topicKey())
	case code != 0:
		return false, s.failf(code, "ask the brokers for topic %q", t.name)
	case m.IsInternal:
		return false, sinks.Failf(sinks.Misconfigured, "topic %q belongs to the brokers themselves: correct %s", t.name, s.topicKey())
	case len(m.Partitions) == 0:
		return false, sinks.Failf(sinks.Transient, "topic %q has no partitions yet", t.name)
	}
	if len(t.partitions) != len(m.Partitions) {
		t.partitions = nil
		for i := range m.Partitions {
			t.partitions = append(t.partitions, i)
		}
	}
	for len(t.shares) < len(t.partitions) {
		t.shares = append(t.shares, nil)
		t.sequences = append(t.sequences, &sequence{producer: nobody})
	}
	t.leaders = t.leaders[:0]
	for i := range m.Partitions {
		t.leaders = append(t.leaders, m.Partitions[i].LeaderID)
	}
	t.replicas = len(m.Partitions[0].ReplicaNodes)
	return false, nil
}

// countAgain asks once in a Send how many partitions t has: what is known of them may
// be older than a partition that a record names. It says whether there is an answer;
// that there is none fails t, whose records are kept.
func (s *sink) countAgain(ctx context.Context, t *topic) bool {
	if t.counted {
		return false
	}
	t.counted = true
	if s.cluster.refresh(ctx) != nil {
		t.err = sinks.Failf(sinks.Transient, "count the partitions of topic %q: %w", t.name, errNotRefreshed)
		return false
	}
	found, err := s.learn(ctx)
	if err == nil {
		_, err = s.look(t, found[t.index])
	}
	t.err = err
	return err == nil
}

// topicKey is where the configuration names topics.
func (s *sink) topicKey() string {
	if s.config.TopicFrom != nil {
		return "kafka.topicFrom"
	}
	return "kafka.topic"
}
