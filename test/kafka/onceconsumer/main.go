// Onceconsumer is an example of a consumer that handles every record of a topic
// once, however often docket has sent it, and however often the consumer itself
// was killed: it copies the records to a file.
//
//	onceconsumer -brokers kafka-0:9092,kafka-1:9092 -topic decisions -dir DIR
//
// It reads all partitions of the topic until it gets a SIGTERM. How it keeps its
// output and its position together is in store.go; a consumer that has a database
// puts both in one transaction instead.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os/signal"
	"strings"
	"syscall"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/docket-export/docket/decision/once"
)

// maxRecords bounds one transaction. Each waits for the disk, and what it carries
// is done again after a kill.
const maxRecords = 1000

func main() {
	brokers := flag.String("brokers", "", "addresses of some brokers, host:port, with commas between them")
	topic := flag.String("topic", "", "the topic to read")
	dir := flag.String("dir", "", "directory for the records and the position")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, strings.Split(*brokers, ","), *topic, *dir); err != nil {
		log.Fatalf("onceconsumer: %v", err) //nolint:gocritic // the process ends, and stop with it
	}
}

// run consumes until ctx is done.
func run(ctx context.Context, brokers []string, topic, dir string) error {
	store, err := openStore(dir)
	if err != nil {
		return err
	}
	defer store.close()
	partitions, err := partitions(ctx, brokers, topic)
	if err != nil {
		return err
	}
	offsets := make(map[int32]kgo.Offset)
	for _, p := range partitions {
		offsets[p] = kgo.NewOffset().At(store.partition(p).Offset)
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(brokers...),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: offsets}),
	)
	if err != nil {
		return err
	}
	defer client.Close()
	for {
		fetches := client.PollRecords(ctx, maxRecords)
		if ctx.Err() != nil {
			return nil // what was polled and is not committed is read again
		}
		// The client goes on trying what it reports here.
		fetches.EachError(func(topic string, partition int32, err error) {
			log.Printf("read topic %s, partition %d: %v", topic, partition, err)
		})
		if err := handle(store, fetches.Records()); err != nil {
			return err
		}
	}
}

// partitions returns the numbers of the topic's partitions.
func partitions(ctx context.Context, brokers []string, topic string) ([]int32, error) {
	admin, err := kadm.NewOptClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	topics, err := admin.ListTopics(ctx, topic)
	if err == nil {
		err = topics[topic].Err
	}
	if err != nil {
		return nil, fmt.Errorf("ask for the partitions of topic %s: %w", topic, err)
	}
	return topics[topic].Partitions.Numbers(), nil
}

// handle is one transaction: the records that have not been handled before are
// added to the output, and the position moves behind them.
func handle(s *store, records []*kgo.Record) error {
	if len(records) == 0 {
		return nil
	}
	for _, r := range records {
		d, err := once.ParseHeaders(r.Headers, func(h kgo.RecordHeader) (string, []byte) { return h.Key, h.Value })
		if errors.Is(err, once.ErrNotDocket) {
			err = nil // the zero Delivery is taken always
		}
		if err != nil {
			return fmt.Errorf("topic %s, partition %d, offset %d: %w", r.Topic, r.Partition, r.Offset, err)
		}
		p := s.partition(r.Partition)
		if p.Once.Take(d) {
			s.add(r.Value)
		} else {
			p.Dropped++
		}
		p.Offset = r.Offset + 1
	}
	return s.commit()
}
