package kafkasink

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/docket-export/docket/sinks"
)

// BenchmarkSend compares a sink with a plain loop of Client.Produce over the same
// batches of 1000 records of 1 KB: one request to each partition at a time. The
// loop carries docket's headers too, made beforehand, or no headers at all. What
// they write is taken and forgotten, in the same process.
func BenchmarkSend(b *testing.B) {
	const records = 1000
	var texts []string
	for i := range records {
		texts = append(texts, fmt.Sprintf(`{"resourceNamespace":"ns-%d","resourceName":"pod-%d","pad":%q}`, i%7, i, strings.Repeat("x", 950)))
	}
	items := batch(1, texts...)
	for _, partitions := range []int32{1, 4} {
		run := func(name string, send func(b *testing.B) func() error) {
			b.Run(fmt.Sprintf("%s/partitions=%d", name, partitions), func(b *testing.B) {
				b.SetBytes(int64(items.Size()))
				b.ReportAllocs()
				next := send(b)
				for b.Loop() {
					if err := next(); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.N)*records/b.Elapsed().Seconds(), "records/s")
			})
		}
		plain := func(headers bool) func(b *testing.B) func() error {
			return func(b *testing.B) func() error {
				return plainLoop(b, startBrokers(b, partitions, kfake.BlackholeProduce()), items, int(partitions), headers)
			}
		}
		sink := func(change ...func(*Config)) func(b *testing.B) func() error {
			return func(b *testing.B) func() error {
				s := openSink(b, startBrokers(b, partitions, kfake.BlackholeProduce()).ListenAddrs(), change...)
				return func() error { return s.Send(context.Background(), items) }
			}
		}
		run("plain", plain(false))
		run("plain with headers", plain(true))
		run("sink", sink(func(c *Config) { c.Partitioner = RoundRobin }))
		run("sink with key", sink(withKey("resourceNamespace", "resourceName")))
	}
}

// plainLoop returns what writes items, spread evenly over the partitions, in
// requests of the size that a sink makes.
func plainLoop(b *testing.B, brokers *brokers, items sinks.Batch, partitions int, headers bool) func() error {
	transport := &kafka.Transport{MetadataTopics: []string{testTopic}}
	b.Cleanup(transport.CloseIdleConnections)
	client := &kafka.Client{Addr: kafka.TCP(brokers.ListenAddrs()...), Transport: transport}
	shares := make([][]record, partitions)
	var e encoder
	made := make([][]kafka.Header, len(items.Items))
	for i, it := range items.Items {
		r, _ := e.record(items, i, &Config{})
		shares[i%partitions] = append(shares[i%partitions], r)
		if headers {
			made[i] = []kafka.Header{
				{Key: "docket-id", Value: []byte(items.ID(i))},
				{Key: "docket-seq", Value: strconv.AppendUint(nil, it.Seq, 10)},
				{Key: "docket-source", Value: []byte(it.Source)},
				{Key: "docket-producer", Value: []byte(it.Producer)},
				{Key: "docket-received", Value: it.Received.AppendFormat(nil, time.RFC3339Nano)},
			}
		}
	}
	produce := func(partition int, records []record) error {
		list := make([]kafka.Record, len(records))
		for i, r := range records {
			list[i] = kafka.Record{Value: kafka.NewBytes(r.value), Headers: made[r.item]}
		}
		res, err := client.Produce(context.Background(), &kafka.ProduceRequest{
			Topic: testTopic, Partition: partition, RequiredAcks: kafka.RequireAll, Records: kafka.NewRecordReader(list...),
		})
		if err != nil {
			return err
		}
		return res.Error
	}
	return func() error {
		errs := make([]error, partitions)
		var writers sync.WaitGroup
		for p, share := range shares {
			writers.Go(func() {
				for _, run := range requests(share, defaultMaxBytes-batchHeader) {
					if err := produce(p, run); err != nil {
						errs[p] = err
					}
				}
			})
		}
		writers.Wait()
		for _, err := range errs {
			if err != nil {
				return err
			}
		}
		return nil
	}
}
