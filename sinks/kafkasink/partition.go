package kafkasink

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/segmentio/kafka-go"

	"github.com/docket-export/docket/decision/rawjson"
)

// Partitioner says how the partition of a record is chosen. Each choice depends
// on the record, its seq and the number of partitions, and on nothing else, so
// that a redelivery goes to the partition of the first delivery: consumers know
// it again there.
type Partitioner string

// The partitioners.
const (
	// Murmur2 chooses by the key as the Java client does. A record without a
	// key goes with its neighbours, see stickyRun.
	Murmur2 Partitioner = "murmur2"
	// RoundRobin spreads seqs evenly, whatever the key.
	RoundRobin Partitioner = "roundRobin"
	// Manual takes the number in a field of the record. A record that has no
	// such number, or one that is no partition's, is rejected.
	Manual Partitioner = "manual"
)

// stickyRun is how many consecutive seqs share a partition where records have no
// key. One full request costs less than many small ones; half a batch of the
// default size lets two partitions work at the same time.
const stickyRun = 512

// byKey is the hash and the modulus of the Java client, so that other producers
// agree where a key lives.
var byKey = kafka.Murmur2Balancer{Consistent: true}

// partition returns the partition for a record with this key, nil for none, among
// partitions. An error means that the record names none of them.
func (c *Config) partition(record, key []byte, seq uint64, partitions []int) (int, error) {
	n := uint64(len(partitions))
	switch {
	case c.Partitioner == Manual:
		return manualPartition(record, c.PartitionField, partitions)
	case c.Partitioner == RoundRobin:
		return partitions[seq%n], nil
	case key == nil:
		return partitions[seq/stickyRun%n], nil
	}
	return byKey.Balance(kafka.Message{Key: key}, partitions...), nil
}

// errNoPartition is a partition that the topic had not when it was last asked about.
var errNoPartition = errors.New("no such partition")

func manualPartition(record []byte, field string, partitions []int) (int, error) {
	value := rawjson.Get(record, field)
	if value == nil {
		return 0, fmt.Errorf("the record has no field %s for its partition (kafka.partitionField)", field)
	}
	n, err := strconv.ParseUint(string(value), 10, 31)
	if err != nil {
		return 0, fmt.Errorf("field %s is %s, not the number of a partition (kafka.partitionField)", field, excerpt(string(value)))
	}
	if n >= uint64(len(partitions)) {
		return 0, fmt.Errorf("%w: field %s names partition %d, and the topic has %d, counted from 0 (kafka.partitionField)", errNoPartition, field, n, len(partitions))
	}
	return partitions[n], nil
}
