package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/docket-export/docket/bench/record"
)

const (
	brokerCommand      = "broker"
	produceLoopCommand = "produceloop"

	benchTopic = "decisions"
	partitions = 3
)

// serveKafka is a broker that checks what it gets, as brokers do, says that it has
// it, and forgets it.
func serveKafka(l net.Listener, c *counter) (stop func(), err error) {
	counting := make(chan struct{})
	cluster, err := kfake.NewCluster(
		kfake.NumBrokers(1),
		kfake.SeedTopics(partitions, benchTopic),
		kfake.BlackholeProduce(),
		kfake.ListenFn(func(string, string) (net.Listener, error) { return heldListener{l, counting}, nil }),
	)
	if err != nil {
		return nil, err
	}
	cluster.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		for _, topic := range req.(*kmsg.ProduceRequest).Topics {
			for _, p := range topic.Partitions {
				c.add(recordsIn(p.Records))
			}
		}
		return nil, nil, false // the broker does the rest
	})
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

// recordsIn is how many records a record batch says it has.
func recordsIn(batch []byte) int {
	const at = 57 // of the number, in version 2 of the format
	if len(batch) < at+4 {
		return 0
	}
	return int(binary.BigEndian.Uint32(batch[at:]))
}

// produceLoop is the plain program: for each partition a goroutine that calls
// Client.Produce of kafka-go again and again, and waits for the answer of the broker
// before the next call. Each call has the same records, whose values and headers are
// made before the clock starts. acks=all, and metadata live as long as docket's.
type produceLoop struct {
	Broker     string
	PerRequest int
	Requests   int // to each partition
	Headers    bool
}

func (o produceLoop) run(ctx context.Context) (produced, error) {
	ctx, cancel := context.WithTimeout(ctx, produceWait)
	defer cancel()
	transport := &kafka.Transport{MetadataTTL: time.Minute, MetadataTopics: []string{benchTopic}}
	defer transport.CloseIdleConnections()
	client := &kafka.Client{Addr: kafka.TCP(o.Broker), Timeout: requestWait, Transport: transport}
	made := make([]plainRequest, partitions)
	for i := range made {
		made[i] = newPlainRequest(i, o)
	}
	p, err := timed(partitions, func(i int) error {
		for range o.Requests {
			if err := made[i].produce(ctx, client, i); err != nil {
				return err
			}
		}
		return nil
	})
	p.Records = partitions * o.Requests * o.PerRequest
	return p, err
}

// plainRequest is what the loop sends to one partition again and again.
type plainRequest struct {
	values  [][]byte
	headers [][]kafka.Header
	records []kafka.Record
}

func newPlainRequest(number int, o produceLoop) plainRequest {
	lines := record.NewBlock(number).Next(0, record.PerBlock)
	r := plainRequest{
		values: make([][]byte, o.PerRequest), headers: make([][]kafka.Header, o.PerRequest),
		records: make([]kafka.Record, o.PerRequest),
	}
	for i := range r.values {
		at := i % record.PerBlock * record.Bytes
		r.values[i] = lines[at : at+record.Bytes-1]
		if o.Headers {
			r.headers[i] = plainHeaders(i)
		}
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
	for i := range r.records { // a value is read once
		r.records[i] = kafka.Record{Value: kafka.NewBytes(r.values[i]), Headers: r.headers[i]}
	}
	res, err := client.Produce(ctx, &kafka.ProduceRequest{
		Topic: benchTopic, Partition: partition, RequiredAcks: kafka.RequireAll,
		Records: kafka.NewRecordReader(r.records...),
	})
	if err != nil {
		return err
	}
	return res.Error
}
