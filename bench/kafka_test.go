package bench

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	topic      = "decisions"
	partitions = 3
)

// BenchmarkKafka is the delivery of a backlog, with the default options, to a broker that checks every request
// and forgets it. The plain program, in a process of its own, has a goroutine for each partition that calls
// Client.Produce of kafka-go again and again, with acks=all, as many records in a request, and headers of the
// same length. The clock is the broker's. BenchmarkDelivery of test/kafka compares at least once with exactly
// once, with a real Kafka.
func BenchmarkKafka(b *testing.B) {
	perRequest := 600.0
	serve := func(b *testing.B, c *counter) string { return serveKafka(b, 0, c) }
	b.Run("program=docket", func(b *testing.B) { perRequest = deliver(b, serve, kafkaSink).perPart() })
	b.Run("program=plain", func(b *testing.B) {
		n := int(math.Round(perRequest))
		deliverPlain(b, serve, func(address string) job {
			return &produceLoop{address, n, max(1, backlogRecords/n/partitions)}
		})
	})
}

func serveKafka(b *testing.B, port int, c *counter) (address string) {
	b.Helper()
	cluster := must(kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(port), kfake.SeedTopics(partitions, topic), kfake.BlackholeProduce()))(b)
	b.Cleanup(cluster.Close)
	cluster.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		for _, t := range req.(*kmsg.ProduceRequest).Topics {
			for _, p := range t.Partitions {
				const at = 57 // of the number of records, in version 2 of the format
				c.add(int(binary.BigEndian.Uint32(p.Records[at:])))
			}
		}
		return nil, nil, false // the broker does the rest
	})
	return cluster.ListenAddrs()[0]
}

// produceLoop is the plain program.
type produceLoop struct {
	Broker             string
	PerRequest, Number int // requests to each partition
}

func (o *produceLoop) run() (done, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	transport := &kafka.Transport{MetadataTTL: time.Minute, MetadataTopics: []string{topic}}
	client := &kafka.Client{Addr: kafka.TCP(o.Broker), Timeout: time.Minute, Transport: transport}
	var values [][]byte
	var headers [][]kafka.Header
	for line := range strings.Lines(string(recordsOf(o.PerRequest))) {
		values, headers = append(values, []byte(strings.TrimSpace(line))), append(headers, plainHeaders(len(values)))
	}
	return timed(partitions, func(partition int) error {
		for range o.Number {
			records := make([]kafka.Record, len(values))
			for i := range records { // a value is read once
				records[i] = kafka.Record{Value: kafka.NewBytes(values[i]), Headers: headers[i]}
			}
			res, err := client.Produce(ctx, &kafka.ProduceRequest{
				Topic: topic, Partition: partition, RequiredAcks: kafka.RequireAll, Records: kafka.NewRecordReader(records...),
			})
			if err != nil {
				return err
			}
			if res.Error != nil {
				return res.Error
			}
		}
		return nil
	})
}

// plainHeaders are as many as those that docket sends, with names and values of the same length.
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
