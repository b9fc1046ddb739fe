package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
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
	broker     string
	perRequest int
	requests   int // to each partition
	headers    bool
}

// produceLoop runs the loop in a process of its own.
func (l *lab) produceLoop(ctx context.Context, o produceLoop) (produced, error) {
	var p produced
	out, err := l.run(ctx, produceLoopCommand, "-broker", o.broker, "-request", strconv.Itoa(o.perRequest),
		"-requests", strconv.Itoa(o.requests), "-headers="+strconv.FormatBool(o.headers))
	if err != nil {
		return p, err
	}
	return p, json.Unmarshal(out, &p)
}

// produceLoopMain is such a process.
func produceLoopMain(ctx context.Context, args []string, out io.Writer) error {
	var o produceLoop
	flags := flag.NewFlagSet(produceLoopCommand, flag.ContinueOnError)
	flags.StringVar(&o.broker, "broker", "", "")
	flags.IntVar(&o.perRequest, "request", 1, "")
	flags.IntVar(&o.requests, "requests", 1, "")
	flags.BoolVar(&o.headers, "headers", false, "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	p, err := o.run(ctx)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(p)
}

func (o produceLoop) run(ctx context.Context) (produced, error) {
	ctx, cancel := context.WithTimeout(ctx, produceWait)
	defer cancel()
	transport := &kafka.Transport{MetadataTTL: time.Minute, MetadataTopics: []string{benchTopic}}
	defer transport.CloseIdleConnections()
	client := &kafka.Client{Addr: kafka.TCP(o.broker), Timeout: requestWait, Transport: transport}
	made := make([]plainRequest, partitions)
	for i := range made {
		made[i] = newPlainRequest(i, o)
	}
	p, err := timed(partitions, func(i int) error {
		for range o.requests {
			if err := made[i].produce(ctx, client, i); err != nil {
				return err
			}
		}
		return nil
	})
	p.Records = partitions * o.requests * o.perRequest
	return p, err
}

// plainRequest is what the loop sends to one partition again and again.
type plainRequest struct {
	values  [][]byte
	headers [][]kafka.Header
	records []kafka.Record
}

func newPlainRequest(number int, o produceLoop) plainRequest {
	b := newBlock(number)
	r := plainRequest{
		values: make([][]byte, o.perRequest), headers: make([][]kafka.Header, o.perRequest),
		records: make([]kafka.Record, o.perRequest),
	}
	for i := range r.values {
		at := i % blockRecords * recordBytes
		r.values[i] = b.lines[at : at+recordBytes-1]
		if o.headers {
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
