package kafkasink

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/produce"

	"github.com/docket-export/docket/sinks"
	"github.com/docket-export/docket/sinks/sinktls"
)

// partitions returns the numbers of the topic's partitions. It asks what the
// transport knows and waits for the brokers only when that is nothing.
//
// It is also where a cluster that cannot be used is diagnosed: without metadata
// Produce says "topic not found", be the cause a password or a certificate.
func (s *sink) partitions(ctx context.Context) ([]int, error) {
	topicName := s.config.Topic
	res, err := s.cluster.client.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{topicName}})
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, s.failf(cause(err), "ask the brokers for topic %q", topicName)
	}
	topic := res.Topics[0]
	switch {
	case errors.Is(topic.Error, kafka.UnknownTopicOrPartition):
		// Brokers say the same of a topic that the client may not see.
		return nil, sinks.Failf(sinks.Misconfigured,
			"topic %q does not exist on the brokers: create it or mend kafka.topic, or permit this client to describe it", topicName)
	case topic.Error != nil:
		return nil, s.failf(topic.Error, "ask the brokers for topic %q", topicName)
	case topic.Internal:
		return nil, sinks.Failf(sinks.Misconfigured, "topic %q belongs to the brokers themselves: mend kafka.topic", topicName)
	case len(topic.Partitions) == 0:
		return nil, sinks.Failf(sinks.Transient, "topic %q has no partitions yet", topicName)
	}
	ids := make([]int, len(topic.Partitions))
	for i := range ids {
		ids[i] = i
	}
	return ids, nil
}

// failf classifies err, and prefixes it with what was attempted.
func (s *sink) failf(err error, format string, args ...any) error {
	attempted := fmt.Sprintf(format, args...)
	// A dialer's timeout is another one, and its text names the broker.
	if _, dialed := errors.AsType[*net.OpError](err); !dialed && errors.Is(err, context.DeadlineExceeded) {
		return sinks.Failf(sinks.Transient, "%s: no answer within %s", attempted, s.config.Timeout)
	}
	if f, ok := errors.AsType[*sinks.Failure](err); ok {
		return sinks.Failf(f.Kind, "%s: %w", attempted, err)
	}
	if hint := misconfigured(err); hint != "" {
		return sinks.Failf(sinks.Misconfigured, "%s: %w: %s", attempted, err, hint)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) {
		return sinks.Failf(sinks.Transient, "%s: the broker closed the connection (%w); if that stays, see whether its port expects TLS or SASL", attempted, err)
	}
	return sinks.Failf(sinks.Transient, "%s: %w", attempted, err)
}

// cause is an error of kafka.Client without the name of the method and, for one
// that was made before anything was sent, without its talk of a fetch.
func cause(err error) error {
	if local, ok := errors.AsType[*produce.Error](err); ok {
		return local.Err
	}
	if inner := errors.Unwrap(err); inner != nil {
		return inner
	}
	return err
}

// misconfigured says what an operator is to do about err, and nothing when it
// may pass by itself: leaders move, replicas come back.
func misconfigured(err error) string {
	var code kafka.Error
	if errors.As(err, &code) {
		return misconfiguredCode(code)
	}
	if errors.Is(err, errExpectsTLS) {
		return "set kafka.tls, or name the port for plain text in kafka.brokers"
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return "the port does not speak TLS: check kafka.brokers, or remove kafka.tls"
	}
	return sinktls.Hint(err, tlsSection, "broker")
}

func misconfiguredCode(code kafka.Error) string {
	switch code {
	case kafka.TopicAuthorizationFailed:
		return "permit this client to write to the topic"
	case kafka.ClusterAuthorizationFailed:
		return "permit this client to use the cluster"
	case kafka.SASLAuthenticationFailed, kafka.UnsupportedSASLMechanism, kafka.IllegalSASLState, kafka.SecurityDisabled:
		return "the port wants another way of authentication: check kafka.brokers"
	case kafka.InvalidTopic:
		return "mend kafka.topic"
	case kafka.UnsupportedCompressionType:
		return "choose another kafka.compression"
	case kafka.UnsupportedForMessageFormat, kafka.UnsupportedVersion:
		return "the brokers are too old for this client"
	case kafka.PolicyViolation:
		return "check the policies of the cluster"
	}
	return ""
}
