package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/docket-export/docket/bench/load"
	"github.com/docket-export/docket/bench/record"
)

const (
	benchTopic = "decisions"
	partitions = 3
)

// newBrokers makes a cluster that checks what it gets, as brokers do, says that it has
// it, and forgets it. produced is told how many records are in each request.
func newBrokers(count int, listen func(network, address string) (net.Listener, error), produced func(records int)) (*kfake.Cluster, error) {
	cluster, err := kfake.NewCluster(
		kfake.NumBrokers(count), kfake.SeedTopics(partitions, benchTopic), kfake.BlackholeProduce(), kfake.ListenFn(listen),
	)
	if err != nil {
		return nil, err
	}
	cluster.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		records := 0
		for _, topic := range req.(*kmsg.ProduceRequest).Topics {
			for _, p := range topic.Partitions {
				records += recordsIn(p.Records)
			}
		}
		produced(records)
		return nil, nil, false // the broker does the rest
	})
	return cluster, nil
}

// recordsIn is how many records a record batch says it has.
func recordsIn(batch []byte) int {
	const at = 57 // of the number, in version 2 of the format
	if len(batch) < at+4 {
		return 0
	}
	return int(binary.BigEndian.Uint32(batch[at:]))
}

// serveKafka is a destination with one broker.
func serveKafka(l net.Listener, c *counter) (stop func(), err error) {
	counting := make(chan struct{})
	cluster, err := newBrokers(1, func(string, string) (net.Listener, error) { return heldListener{l, counting}, nil }, c.add)
	if err != nil {
		return nil, err
	}
	close(counting)
	return cluster.Close, nil
}

// heldListener takes connections when held is closed.
type heldListener struct {
	net.Listener
	held <-chan struct{}
}

func (l heldListener) Accept() (net.Conn, error) {
	<-l.held
	return l.Listener.Accept()
}

// counted is a cluster that counts what is asked of it.
type counted struct {
	*kfake.Cluster
	open                                atomic.Int64 // connections
	received, produces, metadatas, sent atomic.Int64 // bytes, requests, and records
}

func newCounted(brokers int) (*counted, error) {
	b := &counted{}
	listen := func(network, address string) (net.Listener, error) {
		l, err := net.Listen(network, address)
		return countingListener{l, b}, err
	}
	cluster, err := newBrokers(brokers, listen, func(records int) {
		b.produces.Add(1)
		b.sent.Add(int64(records))
	})
	if err != nil {
		return nil, err
	}
	b.Cluster = cluster
	cluster.ControlKey(int16(kmsg.Metadata), func(kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		b.metadatas.Add(1)
		return nil, nil, false
	})
	return b, nil
}

type countingListener struct {
	net.Listener
	b *counted
}

func (l countingListener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.b.open.Add(1)
	return &countedConn{Conn: nc, b: l.b}, nil
}

type countedConn struct {
	net.Conn
	b      *counted
	closed atomic.Bool
}

func (c *countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.b.received.Add(int64(n))
	return n, err
}

func (c *countedConn) Close() error {
	if !c.closed.Swap(true) {
		c.b.open.Add(-1)
	}
	return c.Conn.Close()
}

// produceLoop is the plain program: for each partition a goroutine that calls
// Client.Produce of kafka-go again and again, and waits for the answer of the broker
// before the next call. Each call has the same records, whose values and headers are
// made before the clock starts. acks=all, and metadata live as long as docket's.
type produceLoop struct {
	Broker     string
	PerRequest int
	Requests   int // to each partition
}

func (o produceLoop) run(ctx context.Context) (load.Done, error) {
	ctx, cancel := context.WithTimeout(ctx, load.Wait)
	defer cancel()
	transport := &kafka.Transport{MetadataTTL: time.Minute, MetadataTopics: []string{benchTopic}}
	defer transport.CloseIdleConnections()
	client := &kafka.Client{Addr: kafka.TCP(o.Broker), Timeout: requestWait, Transport: transport}
	made := make([]plainRequest, partitions)
	for i := range made {
		made[i] = newPlainRequest(i, o.PerRequest)
	}
	return load.Timed(partitions, func(i int) error {
		for range o.Requests {
			if err := made[i].produce(ctx, client, i); err != nil {
				return err
			}
		}
		return nil
	})
}

// plainRequest is what the loop sends to one partition again and again.
type plainRequest struct {
	values  [][]byte
	headers [][]kafka.Header
}

func newPlainRequest(number, records int) (r plainRequest) {
	lines := record.NewBlock(number).Next(0, record.PerBlock)
	for i := range records {
		at := i % record.PerBlock * record.Bytes
		r.values = append(r.values, lines[at:at+record.Bytes-1])
		r.headers = append(r.headers, plainHeaders(i))
	}
	return r
}

// plainHeaders are as those that docket sends: as many, with names and values of
// the same length.
func plainHeaders(i int) []kafka.Header {
	seq := fmt.Sprint(100_000 + i)
	return []kafka.Header{
		{Key: "docket-id", Value: []byte("6f0c2f0e-5a0e-4c3e-9d57-3a5f1f6a7b10-" + seq)},
		{Key: "docket-seq", Value: []byte(seq)},
		{Key: "docket-source", Value: []byte("bench")},
		{Key: "docket-producer", Value: []byte("bench-0")},
		{Key: "docket-received", Value: []byte("2026-11-21T08:07:16.213267926Z")},
	}
}

func (r plainRequest) produce(ctx context.Context, client *kafka.Client, partition int) error {
	records := make([]kafka.Record, len(r.values))
	for i := range records { // a value is read once
		records[i] = kafka.Record{Value: kafka.NewBytes(r.values[i]), Headers: r.headers[i]}
	}
	res, err := client.Produce(ctx, &kafka.ProduceRequest{
		Topic: benchTopic, Partition: partition, RequiredAcks: kafka.RequireAll,
		Records: kafka.NewRecordReader(records...),
	})
	if err != nil {
		return err
	}
	return res.Error
}
