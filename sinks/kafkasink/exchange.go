package kafkasink

import (
	"context"
	"fmt"
	"io"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

// nodeRequest is a request to the broker that it names, at the version that it names, or the broker's
// newest. kafka-go asks for the coordinator before each transactional request, and takes the
// newest version it can write: of InitProducerID one that names a producer.
type nodeRequest struct {
	protocol.Message // hides from kafka-go what it goes by to find a coordinator
	node             int32
	version          int16
	unknown          bool // to the broker
	clientID         string
}

var (
	_ protocol.BrokerMessage = (*nodeRequest)(nil)
	_ protocol.RawExchanger  = (*nodeRequest)(nil)
)

// Broker implements protocol.BrokerMessage.
func (r *nodeRequest) Broker(cluster protocol.Cluster) (protocol.Broker, error) {
	return brokerOf(cluster, r.node)
}

func brokerOf(cluster protocol.Cluster, node int32) (protocol.Broker, error) {
	broker, ok := cluster.Brokers[node]
	if !ok {
		return protocol.Broker{}, kafka.BrokerNotAvailable
	}
	return broker, nil
}

// Required implements protocol.RawExchanger.
func (r *nodeRequest) Required(versions map[protocol.ApiKey]int16) bool {
	newest, known := versions[r.ApiKey()]
	r.version, r.unknown = min(r.version, newest), !known
	return true
}

// RawExchange implements protocol.RawExchanger.
func (r *nodeRequest) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	if r.unknown {
		return nil, fmt.Errorf("the broker does not know %s: %w", r.ApiKey(), kafka.UnsupportedVersion)
	}
	return protocol.RoundTrip(rw, r.version, correlation, r.clientID, r.Message)
}

// correlation is that of every request made here: a connection has one at a time, and
// is closed with one that was given up.
const correlation = 0

// ask makes one request of version to the broker node.
func (k *cluster) ask(ctx context.Context, node int32, version int16, request protocol.Message) (protocol.Message, error) {
	return k.exchange(ctx, &nodeRequest{Message: request, node: node, version: version, clientID: k.transport.ClientID})
}

// exchange makes one request, bounded as every one to a broker is.
func (k *cluster) exchange(ctx context.Context, request protocol.Message) (protocol.Message, error) {
	ctx, cancel := context.WithTimeout(ctx, k.client.Timeout)
	defer cancel()
	return k.transport.RoundTrip(ctx, k.client.Addr, request)
}
