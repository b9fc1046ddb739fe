package kafkasink

import (
	"context"
	"errors"
	"time"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/createtopics"
	"github.com/segmentio/kafka-go/protocol/metadata"
)

// refreshTimeout bounds a refresh. An answer comes in milliseconds, and over a new
// connection in tens of them; a broker that hangs must not hold up the way to another.
const refreshTimeout = time.Second

// refreshAttempts is how often the brokers are asked by a refresh that gets no answer:
// the transport has up to two idle connections for that, and learns that they are gone
// when it uses them.
const refreshAttempts = 3

// errNotRefreshed is a refresh after which the transport knows no more than before.
var errNotRefreshed = errors.New("no broker gave newer metadata")

// refresh has the brokers asked for metadata now, and waits for their answer, which is
// what the transport goes by from then on. Metadata that it had are kept when
// there are no newer ones. It fails with context.DeadlineExceeded when the
// connection hangs over which the transport asks.
func (k *cluster) refresh(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, k.refreshWait)
	defer cancel()
	before := k.cached(ctx)
	for range refreshAttempts {
		_, err := k.transport.RoundTrip(ctx, k.client.Addr, refreshRequest{})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return err
		}
		if after := k.cached(ctx); after != nil && !isSameAnswer(before, after) {
			return nil
		}
	}
	return errNotRefreshed
}

// cached is what the transport knows of the cluster, and nil when that is nothing.
func (k *cluster) cached(ctx context.Context) *metadata.Response {
	res, err := k.transport.RoundTrip(ctx, k.client.Addr, &metadata.Request{})
	if err != nil {
		return nil
	}
	return res.(*metadata.Response)
}

// isSameAnswer says whether a and b are one answer of a broker: the transport hands
// out copies, which have their brokers in common.
func isSameAnswer(a, b *metadata.Response) bool {
	if a == nil || len(a.Brokers) == 0 || len(b.Brokers) == 0 {
		return false
	}
	return &a.Brokers[0] == &b.Brokers[0]
}

// refreshRequest asks no broker for anything. A transport of kafka-go asks for
// metadata when their time has come and after it has created topics, and has no
// call for it: so this is a request that is split into none, and whose answer is
// that no topics have been created.
type refreshRequest struct{}

var (
	_ protocol.Splitter = refreshRequest{}
	_ protocol.Merger   = refreshRequest{}
)

// ApiKey implements protocol.Message.
func (refreshRequest) ApiKey() protocol.ApiKey { return protocol.CreateTopics }

// Split implements protocol.Splitter.
func (r refreshRequest) Split(protocol.Cluster) ([]protocol.Message, protocol.Merger, error) {
	return nil, r, nil
}

// Merge implements protocol.Merger.
func (refreshRequest) Merge([]protocol.Message, []any) (protocol.Message, error) {
	return &createtopics.Response{}, nil
}
