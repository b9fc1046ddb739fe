package kafkasink

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/docket-export/docket/sinks"
)

func withTopics(fallback string, allow ...string) func(*Config) {
	return func(c *Config) {
		c.Topic, c.TopicFrom = "", &TopicFrom{Field: "o.topic", Allow: allow, Default: fallback}
	}
}

// counts is how many messages the partitions of a topic hold together.
func (b *brokers) count(topic string) int {
	n := 0
	for _, p := range b.PartitionInfos(topic) {
		n += int(p.HighWatermark)
	}
	return n
}

func TestTopicFromRecord(t *testing.T) {
	records := []string{
		`{"o":{"topic":"a"}}`, `{"o":{"topic":"b"}}`, `{"o":{"topic":"secret"}}`, `{"o":{"topic":7}}`,
		`{"o":{"topic":null}}`, `{"o":{}}`, `{"o":{"topic":"b"}}`, `{"o":{"topic":"\u0061"}}`,
	}
	start := func(t *testing.T) *brokers {
		return startBrokers(t, 1, kfake.SeedTopics(3, "a", "b", "rest", "secret"))
	}
	t.Run("default", func(t *testing.T) {
		b := start(t)
		send(t, openSink(t, b.ListenAddrs(), withTopics("rest", "a", "b")), batch(1, records...))
		for topic, want := range map[string]int{"a": 2, "b": 2, "rest": 4, "secret": 0} {
			if got := b.count(topic); got != want {
				t.Errorf("topic %s holds %d messages, want %d", topic, got, want)
			}
		}
	})
	t.Run("no default", func(t *testing.T) {
		b := start(t)
		s := openSink(t, b.ListenAddrs(), withTopics("", "a", "b"))
		f := sendFails(t, s, batch(1, records...), sinks.Rejected, "choose a topic", "kafka.topicFrom")
		if want := []int{2, 3, 4, 5}; !slices.Equal(f.Items, want) {
			t.Fatalf("Items = %v, want %v", f.Items, want)
		}
		for i, want := range map[int]string{2: `the topic "secret"`, 3: "the topic 7", 4: "has no field o.topic", 5: "has no field o.topic"} {
			if got := f.Answer(i).Text; !strings.Contains(got, want) {
				t.Errorf("the answer to item %d is %q, want it to contain %q", i, got, want)
			}
		}
		if a, b2 := b.count("a"), b.count("b"); a != 2 || b2 != 2 {
			t.Errorf("topics a and b hold %d and %d messages, want 2 and 2", a, b2)
		}
	})
}

// What one topic cannot take holds up the batch, and not the records of others.
func TestOneTopicMissing(t *testing.T) {
	b := startBrokers(t, 1, kfake.SeedTopics(2, "a"))
	s := openSink(t, b.ListenAddrs(), withTopics("", "a", "b"))
	records := batch(1, `{"o":{"topic":"a"}}`, `{"o":{"topic":"b"}}`, `{"o":{"topic":"a"}}`, `{"o":{"topic":"b"}}`)
	for range 2 {
		sendFails(t, s, records, sinks.Misconfigured, `topic "b" does not exist`, "correct kafka.topicFrom")
	}
	if err := b.CreateTopic("b", 3, nil); err != nil {
		t.Fatal(err)
	}
	send(t, s, records)
	if a, b2 := b.count("a"), b.count("b"); a != 2 || b2 != 2 {
		t.Errorf("topics a and b hold %d and %d messages, want each record once", a, b2)
	}
}

func withCreation(partitions, replicas, inSync int) func(*Config) {
	return func(c *Config) {
		c.CreateTopic, c.Partitions, c.ReplicationFactor, c.MinInSyncReplicas = true, partitions, replicas, inSync
	}
}

func TestCreateTopic(t *testing.T) {
	three := func(t *testing.T) *brokers { return startBrokers(t, 1, kfake.NumBrokers(3)) }
	another := func(c *Config) { c.Topic = "new" }
	t.Run("missing", func(t *testing.T) {
		b := three(t)
		s := openSink(t, b.ListenAddrs(), another, withCreation(5, 3, 2))
		sendUntilTaken(t, s, batch(1, `{"a":1}`))
		info := b.TopicInfo("new")
		if info == nil || len(b.PartitionInfos("new")) != 5 || info.NumReplicas != 3 {
			t.Fatalf("the topic is %+v, want 5 partitions of 3 replicas", info)
		}
		if got := info.Configs["min.insync.replicas"]; got == nil || *got != "2" {
			t.Errorf("min.insync.replicas is %v, want 2", got)
		}
		if got := b.count("new"); got != 1 {
			t.Errorf("the topic holds %d messages, want 1", got)
		}
	})
	t.Run("there already", func(t *testing.T) {
		b := three(t)
		s := openSink(t, b.ListenAddrs(), withCreation(5, 3, 2))
		asked := 0
		b.ControlKey(int16(kmsg.CreateTopics), func(kmsg.Request) (kmsg.Response, error, bool) {
			b.KeepControl()
			asked++
			return nil, nil, false
		})
		send(t, s, batch(1, `{"a":1}`))
		if n := len(b.PartitionInfos(testTopic)); n != 1 || asked != 0 {
			t.Errorf("the topic has %d partitions after %d requests to create it, want 1 and none", n, asked)
		}
	})
	t.Run("deleted later", func(t *testing.T) {
		b := three(t)
		s := openSink(t, b.ListenAddrs(), another, withCreation(5, 3, 2))
		sendUntilTaken(t, s, batch(1, `{"a":1}`))
		if err := b.DeleteTopic("new"); err != nil {
			t.Fatal(err)
		}
		s.(*sink).disconnect() // as if the metadata had been asked for since
		sendFails(t, s, batch(2, `{"a":2}`), sinks.Misconfigured, `topic "new" has been deleted since docket created it`)
		if b.TopicInfo("new") != nil {
			t.Error("the topic is there again, want it left to whoever deleted it")
		}
	})
	t.Run("too many replicas", func(t *testing.T) {
		b := startBrokers(t, 1)
		s := openSink(t, b.ListenAddrs(), another, withCreation(5, 3, 2))
		sendFails(t, s, batch(1, `{"a":1}`), sinks.Misconfigured, `create topic "new"`, "[38]", "check kafka.partitions, kafka.replicationFactor")
	})
	t.Run("somebody else was faster", func(t *testing.T) {
		b := three(t)
		b.ControlKey(int16(kmsg.CreateTopics), func(kmsg.Request) (kmsg.Response, error, bool) {
			return nil, errors.Join(b.CreateTopic("new", 2, nil)), false
		})
		s := openSink(t, b.ListenAddrs(), another, withCreation(5, 3, 2))
		sendUntilTaken(t, s, batch(1, `{"a":1}`))
		if got := len(b.PartitionInfos("new")); got != 2 {
			t.Errorf("the topic has %d partitions, want the 2 of its maker", got)
		}
		if s.(*sink).topics[0].created {
			t.Error("the sink believes that the topic is its own")
		}
	})
	t.Run("not permitted", func(t *testing.T) {
		file, _ := secretFile(t, password)
		b := startBrokers(t, 1, kfake.EnableSASL(), kfake.EnableACLs(), kfake.User("PLAIN", "docket", password, allow("new", kmsg.ACLOperationDescribe)))
		s := openSink(t, b.ListenAddrs(), another, withCreation(5, 1, 1), withSASL(Plain, "docket", file))
		sendFails(t, s, batch(1, `{"a":1}`), sinks.Misconfigured, `create topic "new"`, "permit this client to create it, or create it by hand")
	})
}

// allow is the permission of an operation on a topic.
func allow(topic string, operation kmsg.ACLOperation) kfake.ACL {
	return kfake.ACL{
		Resource: kmsg.ACLResourceTypeTopic, Name: topic, Pattern: kmsg.ACLResourcePatternTypeLiteral,
		Operation: operation, Allow: true,
	}
}
