package kafkasink

import (
	"fmt"
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
	for _, test := range []struct {
		partitioner Partitioner
		key         []byte
		want        func(seq uint64) int
	}{
		{Murmur2, nil, func(seq uint64) int { return int(seq / stickyRun % n) }},
		{RoundRobin, nil, func(seq uint64) int { return int(seq % n) }},
		{RoundRobin, []byte("key"), func(seq uint64) int { return int(seq % n) }},
	} {
		t.Run(fmt.Sprintf("%s with key %q", test.partitioner, test.key), func(t *testing.T) {
			c := &Config{Partitioner: test.partitioner}
			counts := make([]int, n)
			for seq := uint64(1); seq <= 10*n*stickyRun; seq++ {
				got := c.partition(test.key, seq, numbers(n))
				if want := test.want(seq); got != want {
					t.Fatalf("seq %d goes to partition %d, want %d", seq, got, want)
				}
				counts[got]++
			}
			for p, count := range counts {
				if want := 10 * stickyRun; count < want-1 || count > want+1 {
					t.Errorf("partition %d has %d records, want %d", p, count, want)
				}
			}
		})
	}
	t.Run("empty key", func(t *testing.T) {
		first := defaultConfig().partition([]byte{}, 1, numbers(n))
		for seq := uint64(1); seq < 10*stickyRun; seq += 100 {
			if got := defaultConfig().partition([]byte{}, seq, numbers(n)); got != first {
				t.Errorf("seq %d goes to %d, want %d: an empty key is a key", seq, got, first)
			}
		}
	})
}
