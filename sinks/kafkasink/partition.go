package kafkasink

import "github.com/segmentio/kafka-go"

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
)

// stickyRun is how many consecutive seqs share a partition where records have no
// key. One full request costs less than many small ones; half a batch of the
// default size lets two partitions work at the same time.
const stickyRun = 512

// byKey is the hash and the modulus of the Java client, so that other producers
// agree where a key lives.
var byKey = kafka.Murmur2Balancer{Consistent: true}

// partition returns the partition for a record with this key, nil for none, among
// partitions.
func (c *Config) partition(key []byte, seq uint64, partitions []int) int {
	n := uint64(len(partitions))
	switch {
	case c.Partitioner == RoundRobin:
		return partitions[seq%n]
	case key == nil:
		return partitions[seq/stickyRun%n]
	}
	return byKey.Balance(kafka.Message{Key: key}, partitions...)
}
