package kafkasink

import (
	"context"
	"crypto/tls"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/metadata"

	"github.com/docket-export/docket/sinks"
	"github.com/docket-export/docket/sinks/sinktls"
)

const (
	// metadataTTL is how old the transport lets its knowledge of the cluster grow: it
	// asks again after a time between none and this. Thousands of sidecars ask, and
	// nothing waits for it but a new partition: after a Send that has failed, because a
	// leader has moved say, the sink makes a new cluster, see replace.
	metadataTTL = time.Minute
	// idleTimeout closes a connection that has had no request. It outlives the pauses
	// between two questions for metadata, so that none needs a new login.
	idleTimeout = metadataTTL + 30*time.Second
)

// cluster is a client and its connections.
type cluster struct {
	client    *kafka.Client
	transport *kafka.Transport // the client's
	dialer    *dialer          // the transport's
	version   string           // of the files that connections are made with
	until     time.Time        // the cluster is used until then; owned by Send
}

// newCluster connects to nothing yet.
func newCluster(c *Config) (*cluster, error) {
	var secure *tls.Config
	if c.TLS != nil {
		var err error
		if secure, err = sinktls.Client(*c.TLS, tlsSection); err != nil {
			return nil, err
		}
	}
	timeout := time.Duration(c.Timeout)
	d := newDialer(timeout, secure, answerBytes)
	transport := &kafka.Transport{
		Dial:           d.dial,
		DialTimeout:    timeout,
		IdleTimeout:    idleTimeout,
		MetadataTTL:    metadataTTL,
		MetadataTopics: []string{c.Topic},
		ClientID:       c.ClientID,
	}
	k := &cluster{
		client:    &kafka.Client{Addr: kafka.TCP(c.Brokers...), Timeout: timeout, Transport: transport},
		transport: transport,
		dialer:    d,
		version:   c.filesVersion(),
		until:     sinks.ConnectionsUntil(),
	}
	if c.SASL != nil {
		transport.SASL = login{SASL: c.SASL, plaintext: c.TLS == nil}
	}
	return k, nil
}

// filesVersion names the state of the files whose change calls for new
// connections. It costs a stat for each. A client's certificate is not among
// them: it is two files, which seldom change at the same moment.
func (c *Config) filesVersion() string {
	var version string
	if c.TLS != nil {
		version = c.TLS.CAVersion()
	}
	if c.SASL != nil {
		version += " " + c.SASL.version()
	}
	return version
}

// metadata returns what the transport knows of a topic. It waits for the
// brokers only when that is nothing.
//
// It is also where a cluster that cannot be used is diagnosed: without metadata
// Produce says "topic not found", be the cause a password or a certificate.
func (k *cluster) metadata(ctx context.Context, topic string) (*metadata.Response, error) {
	ctx, cancel := context.WithTimeout(ctx, k.client.Timeout)
	defer cancel()
	res, err := k.transport.RoundTrip(ctx, k.client.Addr, &metadata.Request{TopicNames: []string{topic}})
	if err != nil {
		return nil, err
	}
	return res.(*metadata.Response), nil
}

// close ends every connection and what the transport runs. A second call does
// nothing.
func (k *cluster) close() {
	k.dialer.close()
	k.transport.CloseIdleConnections()
}
