package kafkasink

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"

	"github.com/segmentio/kafka-go"

	"github.com/docket-export/docket/sinks"
	"github.com/docket-export/docket/sinks/sinktls"
)

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
	if hint := s.misconfigured(err); hint != "" {
		return sinks.Failf(sinks.Misconfigured, "%s: %w: %s", attempted, err, hint)
	}
	if s.inTransactions() && isOutOfSequence(err) {
		return sinks.Failf(sinks.Transient, "%s: %w: another docket started to write, the transaction lasted too long, or the brokers forgot the producer: docket reads its position in Kafka and continues from there", attempted, err)
	}
	if hint := transient(err); hint != "" {
		return sinks.Failf(sinks.Transient, "%s: %w: %s", attempted, err, hint)
	}
	return sinks.Failf(sinks.Transient, "%s: %w", attempted, err)
}

// transient says where to look when err stays, which passes by itself as a rule.
func transient(err error) string {
	if lookup, ok := errors.AsType[*net.DNSError](err); ok && lookup.IsNotFound {
		return "check kafka.brokers, and advertised.listeners of the brokers"
	}
	switch {
	case isOutOfSequence(err):
		return "the broker does not know the earlier records, or their producer: docket continues as a new producer"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "no broker listens there; if this lasts, check kafka.brokers, and advertised.listeners of the brokers"
	case isCut(err):
		return "the broker closed the connection; if this lasts, check whether its port expects TLS or SASL, and kafka.tls and kafka.sasl"
	}
	return ""
}

// isCut says whether err is a connection that a broker has closed. It may have
// ended a SASL session that had lasted long enough for it
// (connections.max.reauth.ms).
func isCut(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// misconfigured says what an operator is to do about err, and nothing when it
// may pass by itself: leaders move, replicas come back.
func (s *sink) misconfigured(err error) string {
	var code kafka.Error
	if errors.As(err, &code) {
		return s.misconfiguredCode(code)
	}
	if errors.Is(err, errExpectsTLS) {
		return "set kafka.tls, or name the plaintext port in kafka.brokers"
	}
	if errors.Is(err, errNotKafka) || errors.Is(err, errHTTP) {
		return "check kafka.brokers"
	}
	if errors.Is(err, errTokenRefused) {
		return s.credentials()
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return "the port does not speak TLS: check kafka.brokers, or remove kafka.tls"
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return "name the brokers in kafka.brokers as their certificates do, or set kafka.tls.serverName"
	}
	return sinktls.Hint(err, tlsSection, "broker")
}

func (s *sink) misconfiguredCode(code kafka.Error) string {
	switch code {
	case kafka.TopicAuthorizationFailed:
		return "permit this client to write to the topic"
	case kafka.TransactionalIDAuthorizationFailed:
		return "permit this client to write and describe transactional ids that begin with docket-"
	case kafka.GroupAuthorizationFailed:
		return "permit this client to read groups that begin with docket-"
	case kafka.InvalidTransactionTimeout:
		return fmt.Sprintf("raise transaction.max.timeout.ms of the brokers to %d, or lower kafka.timeout: a transaction may last six times as long", s.config.transactionTimeout().Milliseconds())
	case kafka.ClusterAuthorizationFailed:
		return "permit this client to use the cluster"
	case kafka.SASLAuthenticationFailed:
		return s.credentials()
	case kafka.UnsupportedSASLMechanism:
		return "the port requires another SASL mechanism: check kafka.sasl.mechanism and kafka.brokers"
	case kafka.IllegalSASLState, kafka.SecurityDisabled:
		return "the port does not expect SASL: check kafka.brokers, or remove kafka.sasl"
	case kafka.InvalidTopic:
		return "correct kafka.topic"
	case kafka.UnsupportedCompressionType:
		return "choose another kafka.compression"
	case kafka.UnsupportedForMessageFormat:
		return "the topic uses the message format of Kafka before 0.11: raise its message.format.version, or set kafka.idempotence: Off"
	case kafka.UnsupportedVersion:
		return "the brokers are too old for this client"
	case kafka.PolicyViolation:
		return "check the policies of the cluster"
	}
	return ""
}

// credentials says where those are that a broker has refused.
func (s *sink) credentials() string {
	switch {
	case s.config.SASL == nil:
		return "set kafka.sasl, or check kafka.brokers"
	case s.config.SASL.Mechanism == OAuthBearer:
		return fmt.Sprintf("check the token in %s", s.config.SASL.TokenFile)
	}
	return fmt.Sprintf("check kafka.sasl.username, and the password in %s", s.config.SASL.PasswordFile)
}
