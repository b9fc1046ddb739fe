package kafkasink

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/docket-export/docket/sinks"
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
				got, err := defaultConfig().partition(nil, []byte(key), seq, numbers(n))
				if err != nil || got != want {
					t.Errorf("key %q of seq %d goes to %d of %d (%v), want %d", key, seq, got, n, err, want)
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
				got, err := c.partition([]byte(`{}`), test.key, seq, numbers(n))
				if want := test.want(seq); err != nil || got != want {
					t.Fatalf("seq %d goes to partition %d (%v), want %d", seq, got, err, want)
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
		first, _ := defaultConfig().partition(nil, []byte{}, 1, numbers(n))
		for seq := uint64(1); seq < 10*stickyRun; seq += 100 {
			if got, _ := defaultConfig().partition(nil, []byte{}, seq, numbers(n)); got != first {
				t.Errorf("seq %d goes to %d, want %d: an empty key is a key", seq, got, first)
			}
		}
	})
}

func TestManualPartition(t *testing.T) {
	c := &Config{Partitioner: Manual, PartitionField: "shard.n"}
	for name, test := range map[string]struct {
		record string
		want   int
		text   string // in the error; empty for none
	}{
		"first":       {`{"shard":{"n":0}}`, 0, ""},
		"last":        {`{"shard":{"n":3}}`, 3, ""},
		"one more":    {`{"shard":{"n":4}}`, 0, "names partition 4, and the topic has 4"},
		"negative":    {`{"shard":{"n":-1}}`, 0, "is -1, not the number of a partition"},
		"huge":        {`{"shard":{"n":99999999999}}`, 0, "not the number of a partition"},
		"fraction":    {`{"shard":{"n":1.0}}`, 0, "is 1.0, not the number"},
		"text":        {`{"shard":{"n":"1"}}`, 0, `is "1", not the number`},
		"null":        {`{"shard":{"n":null}}`, 0, "is null, not the number"},
		"missing":     {`{"shard":3}`, 0, "has no field shard.n"},
		"a long text": {`{"shard":{"n":"` + strings.Repeat("x", 500) + `"}}`, 0, "xxx..., not the number"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := c.partition([]byte(test.record), nil, 7, numbers(4))
			if got != test.want || (err == nil) != (test.text == "") {
				t.Fatalf("partition is %d (%v), want %d", got, err, test.want)
			}
			if err != nil && (!strings.Contains(err.Error(), test.text) || !strings.Contains(err.Error(), "kafka.partitionField") || len(err.Error()) > 200) {
				t.Errorf("error is %q, want a short text with %q and where to look", err, test.text)
			}
		})
	}
}

// What names no partition is rejected alone, and each record has its own reason.
func TestManualPartitionRejects(t *testing.T) {
	b := startBrokers(t, 3)
	s := openSink(t, b.ListenAddrs(), func(c *Config) { c.Partitioner, c.PartitionField = Manual, "p" })
	whole := batch(1, `{"p":2,"n":1}`, `{"p":3}`, `{"p":0,"n":3}`, `{"n":4}`, `{"p":2,"n":5}`)
	f := sendFails(t, s, whole, sinks.Rejected, `topic "decisions"`, "names partition 3")
	if want := []int{1, 3}; !slices.Equal(f.Items, want) {
		t.Fatalf("Items = %v, want %v", f.Items, want)
	}
	if got := f.Answer(3); got.Status != "" || !strings.Contains(got.Text, "has no field p") {
		t.Errorf("the answer to item 3 is %+v, want what is wrong with it and no code of a broker", got)
	}
	send(t, s, sinks.Batch{Queue: queueID, Items: []sinks.Item{whole.Items[0], whole.Items[2], whole.Items[4]}})
	for p, want := range [][]string{{`{"p":0,"n":3}`}, nil, {`{"p":2,"n":1}`, `{"p":2,"n":5}`}} {
		if got := b.values(t, p); !slices.Equal(got, want) {
			t.Errorf("partition %d holds %q, want %q", p, got, want)
		}
	}
}

// A sink that is opened again offers the same records in other batches, as after
// a restart; every copy must be where the first is.
func TestRedeliveryGoesToTheSamePartition(t *testing.T) {
	const partitions, records = 3, 4 * stickyRun
	for _, partitioner := range []Partitioner{Murmur2, RoundRobin} {
		t.Run(string(partitioner), func(t *testing.T) {
			b := startBrokers(t, partitions, kfake.NumBrokers(2))
			var texts []string
			for i := range records {
				texts = append(texts, fmt.Sprintf(`{"n":%d}`, i))
			}
			whole := batch(1, texts...)
			for _, size := range []int{700, 1100} {
				s := openSink(t, b.ListenAddrs(), func(c *Config) { c.Partitioner = partitioner })
				for part := range slices.Chunk(whole.Items, size) {
					send(t, s, sinks.Batch{Queue: queueID, Items: part})
				}
			}
			for p := range partitions {
				seqs := seqsOf(t, b.held(t, p))
				half := len(seqs) / 2
				if half == 0 || !slices.IsSorted(seqs[:half]) || !slices.Equal(seqs[:half], seqs[half:]) {
					t.Errorf("partition %d holds %d seqs of the first delivery and others of the second, want the same in order", p, half)
				}
			}
		})
	}
}
