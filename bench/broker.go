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
	"github.com/docket-export/docket/bench/process"
	"github.com/docket-export/docket/bench/record"
	"github.com/docket-export/docket/bench/trial"
)

const (
	benchTopic = "decisions"
	partitions = 3
)

// brokers are a cluster that checks what it gets, as brokers do, says that it has it, and
// forgets it.
type brokers struct {
	*kfake.Cluster
	received atomic.Int64 // bytes
}

// newBrokers starts a cluster that runs until the measurement ends. produced is told how
// many records are in each request.
func newBrokers(t *trial.T, count int, listen func(network, address string) (net.Listener, error), produced func(records int)) *brokers {
	b, counting := &brokers{}, make(chan struct{})
	b.Cluster = trial.Must(kfake.NewCluster(
		kfake.NumBrokers(count), kfake.SeedTopics(partitions, benchTopic), kfake.BlackholeProduce(),
		kfake.ListenFn(func(network, address string) (net.Listener, error) {
			l, err := listen(network, address)
			return countingListener{l, &b.received, counting}, err
		}),
	))
	t.Cleanup(func() error { b.Close(); return nil })
	b.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		records := 0
		for _, topic := range req.(*kmsg.ProduceRequest).Topics {
			for _, p := range topic.Partitions {
				records += recordsIn(p.Records)
			}
		}
		produced(records)
		return nil, nil, false // the broker does the rest
	})
	close(counting)
	return b
}

// serveKafka is a destination with one broker.
func serveKafka(t *trial.T, d net.Listener, c *counter) {
	newBrokers(t, 1, func(string, string) (net.Listener, error) { return d, nil }, c.add)
}

// recordsIn is how many records a record batch says it has.
func recordsIn(batch []byte) int {
	const at = 57 // of the number, in version 2 of the format
	if len(batch) < at+4 {
		return 0
	}
	return int(binary.BigEndian.Uint32(batch[at:]))
}

// countingListener takes connections when counting is closed, and counts what they bring.
type countingListener struct {
	net.Listener
	received *atomic.Int64
	counting <-chan struct{}
}

func (l countingListener) Accept() (net.Conn, error) {
	<-l.counting
	nc, err := l.Listener.Accept()
	return countedConn{nc, l.received}, err
}

type countedConn struct {
	net.Conn
	received *atomic.Int64
}

func (c countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.received.Add(int64(n))
	return n, err
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
	client := &kafka.Client{Addr: kafka.TCP(o.Broker), Timeout: process.RequestWait, Transport: transport}
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
