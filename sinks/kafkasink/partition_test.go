package kafkasink

import (
	"testing"
)

func numbers(n int) []int {
	partitions := make([]int, n)
	for i := range partitions {
		partitions[i] = i
	}
	return partitions
}

// The hashes are those that Kafka's Java client documents by its own tests.
func TestMurmur2(t *testing.T) {
	for key, hash := range map[string]int32{
		"21":                         -973932308,
		"foobar":                     -790332482,
		"a-little-bit-long-string":   -985981536,
		"a-little-bit-longer-string": -1486304829,
		"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
		"abc": 479470107,
	} {
		for _, n := range []int{1, 2, 3, 7, 12, 100} {
			want := int(hash&0x7fffffff) % n
			for _, seq := range []uint64{1, 5000} {
				got := defaultConfig().partition([]byte(key), seq, numbers(n))
				if got != want {
					t.Errorf("key %q of seq %d goes to %d of %d, want %d", key, seq, got, n, want)
				}
			}
		}
	}
}

// A record keeps its partition whatever batch it comes in, or a consumer would
// not know it again; and every partition gets its part.
func TestPartitionBySeq(t *testing.T) {
	const n = 5
	for seq := uint64(0); seq < 3*n*stickyRun; seq += 7 {
		for _, test := range []struct {
			partitioner Partitioner
			key         []byte
			want        uint64
		}{
			{Murmur2, nil, seq / stickyRun % n},
			{RoundRobin, nil, seq % n},
			{RoundRobin, []byte("key"), seq % n},
			{Murmur2, []byte{}, 1}, // an empty key is a key
		} {
			c := &Config{Partitioner: test.partitioner}
			if got := c.partition(test.key, seq, numbers(n)); uint64(got) != test.want {
				t.Fatalf("%s with key %q: seq %d goes to partition %d, want %d", test.partitioner, test.key, seq, got, test.want)
			}
		}
	}
}
