package kafka

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/docket-export/docket/test/internal/poll"
	"github.com/docket-export/docket/test/kafkatest"
)

// tally is what a consumer that knows nothing of docket has got of a topic: it counts
// every line that a load sent.
type tally struct {
	mu     sync.Mutex             // guards all fields
	counts [producers + 1][]uint8 // how often each line was got, by producer and number
	next   map[int32]int64        // offset after the last message, by partition
	last   map[producerKey]int    // number of the last new line
	got    int                    // lines
	reread int                    // messages that the consumer asked for again, of its own accord
	wrong  problems
}

// producerKey names lines whose order is kept.
type producerKey struct {
	producer int
	key      string
}

func newTally() *tally {
	return &tally{next: make(map[int32]int64), last: make(map[producerKey]int)}
}

// message is what consumers have in common. A control message has no line.
type message struct {
	partition  int32
	offset     int64
	key, value []byte
	control    bool
}

func (t *tally) take(m message) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if m.offset < t.next[m.partition] {
		t.reread++
		return
	}
	t.next[m.partition] = m.offset + 1
	if m.control {
		return
	}
	t.got++
	producer, number, err := parse(string(m.value))
	if err == nil && (producer < 1 || producer > producers || number < 1) {
		err = fmt.Errorf("line %s is of no producer", m.value)
	}
	if err == nil && string(m.key) != keyOfNumber(number) {
		err = fmt.Errorf("line %s has the key %q, want %q", m.value, m.key, keyOfNumber(number))
	}
	if err != nil {
		t.wrong.addf("partition %d, offset %d: %v", m.partition, m.offset, err)
		return
	}
	if missing := number - len(t.counts[producer]); missing > 0 {
		t.counts[producer] = append(t.counts[producer], make([]uint8, missing)...)
	}
	if n := &t.counts[producer][number-1]; *n < 255 {
		*n++
	}
	if t.counts[producer][number-1] > 1 || len(m.key) == 0 {
		return
	}
	of := producerKey{producer, string(m.key)}
	if before := t.last[of]; number <= before {
		t.wrong.addf("partition %d, offset %d: key %s of producer %d: line %d comes after %d", m.partition, m.offset, m.key, producer, number, before)
	}
	t.last[of] = number
}

// twice is how many lines too many there are.
func (t *tally) twice() (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, counts := range t.counts {
		for _, count := range counts {
			n += max(0, int(count)-1)
		}
	}
	return n
}

// lost names the acknowledged lines of a load that are not there.
func (t *tally) lost(l *load) (lost []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range l.producers {
		for number := 1; number <= int(p.acknowledged.Load()); number++ {
			if counts := t.counts[p.id]; number > len(counts) || counts[number-1] == 0 {
				lost = append(lost, fmt.Sprintf("%d of producer %d", number, p.id))
			}
		}
	}
	return lost
}

// at returns nil when everything before ends, offsets by partition, has been got.
func (t *tally) at(ends map[int32]int64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for partition, end := range ends {
		if next := t.next[partition]; next < end {
			return fmt.Errorf("partition %d: at offset %d of %d", partition, next, end)
		}
	}
	return nil
}

// keyOfNumber is the key of a line with that number, empty for none.
func keyOfNumber(number int) string {
	if number%5 == 0 {
		return ""
	}
	return "k" + strconv.Itoa(number%12)
}

// readers are consumers that run while records are written.
type readers struct {
	franz, segmentio *tally
	cancel           context.CancelFunc
	wg               sync.WaitGroup
}

// startReaders starts consumers that read what is committed, on a topic with so many
// partitions: one of franz-go, and one of kafka-go, whose Reader has that setting and
// yet hands out aborted records and control messages.
func startReaders(t *testing.T, cluster *kafkatest.Cluster, topic string, partitions int) *readers {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := &readers{franz: newTally(), segmentio: newTally(), cancel: cancel}
	t.Cleanup(r.stop)
	client, err := kgo.NewClient(
		kgo.SeedBrokers(cluster.Brokers()...), kgo.ConsumeTopics(topic),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(), // tells that the end of a partition is reached
	)
	if err != nil {
		t.Fatal(err)
	}
	r.wg.Go(func() {
		defer client.Close()
		r.readFranz(ctx, client)
	})
	for partition := range partitions {
		reader := kafka.NewReader(kafka.ReaderConfig{
			Brokers: cluster.Brokers(), Topic: topic, Partition: partition,
			IsolationLevel: kafka.ReadCommitted, MaxWait: time.Second,
		})
		r.wg.Go(func() {
			defer reader.Close()
			r.readSegmentio(ctx, reader)
		})
	}
	return r
}

// readFranz reads until ctx is done. Errors are those of brokers that are down.
func (r *readers) readFranz(ctx context.Context, client *kgo.Client) {
	for ctx.Err() == nil {
		for _, record := range client.PollFetches(ctx).Records() {
			r.franz.take(message{record.Partition, record.Offset, record.Key, record.Value, record.Attrs.IsControl()})
		}
	}
}

// controlValue is the value of a message that ends a transaction: a version and the
// epoch of a coordinator.
var controlValue = make([]byte, 2)

func (r *readers) readSegmentio(ctx context.Context, reader *kafka.Reader) {
	for {
		m, err := reader.ReadMessage(ctx)
		if errors.Is(err, context.Canceled) || ctx.Err() != nil {
			return
		}
		if err != nil {
			continue // a broker is down
		}
		control := len(m.Value) == 6 && bytes.HasPrefix(m.Value, controlValue)
		r.segmentio.take(message{int32(m.Partition), m.Offset, m.Key, m.Value, control})
	}
}

// finish waits until the readers have got everything, and ends them.
func (r *readers) finish(t *testing.T, cluster *kafkatest.Cluster, topic string) {
	t.Helper()
	ends := cluster.Ends(topic)
	for name, tally := range map[string]*tally{"franz-go": r.franz, "kafka-go": r.segmentio} {
		if err := poll.Until(deliverTimeout, func() error { return tally.at(ends) }); err != nil {
			t.Errorf("wait for the consumer of %s: %v", name, err)
		}
	}
	r.stop()
}

func (r *readers) stop() {
	r.cancel()
	r.wg.Wait()
}

// consoleIdle is after how long without a message the console consumer takes a topic
// for read. It needs some seconds for its start on a machine that is busy.
const consoleIdle = 20 * time.Second

// readConsole reads what is committed in topic with Kafka's console consumer, once more
// and with more patience where that is fewer lines than another consumer has got.
func readConsole(t *testing.T, cluster *kafkatest.Cluster, topic string, lines int) *tally {
	t.Helper()
	all := readConsoleUntilIdle(t, cluster, topic, consoleIdle)
	if all.got < lines {
		t.Logf("the console consumer gave up after %d of %d lines", all.got, lines)
		all = readConsoleUntilIdle(t, cluster, topic, 6*consoleIdle)
	}
	return all
}

func readConsoleUntilIdle(t *testing.T, cluster *kafkatest.Cluster, topic string, idle time.Duration) *tally {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "messages"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	ctx, cancel := context.WithTimeout(t.Context(), deliverTimeout)
	defer cancel()
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, filepath.Join(kafkatest.Tools(t), "kafka-console-consumer.sh"),
		"--bootstrap-server", strings.Join(cluster.Brokers(), ","), "--topic", topic,
		"--from-beginning", "--isolation-level", "read_committed",
		"--timeout-ms", strconv.FormatInt(idle.Milliseconds(), 10),
		"--formatter-property", "print.partition=true", "--formatter-property", "print.offset=true",
		"--formatter-property", "print.key=true", "--formatter-property", "null.literal=")
	cmd.Stdout, cmd.Stderr = file, &said
	if err := cmd.Run(); err != nil {
		t.Fatalf("console consumer: %v\n%s", err, said.Bytes())
	}
	if _, err := file.Seek(0, 0); err != nil {
		t.Fatal(err)
	}
	all := newTally()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		m, err := parseConsole(lines.Text())
		if err != nil {
			t.Fatal(err)
		}
		all.take(m)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// parseConsole reads "Partition:0", "Offset:1", key and value with tabs between them.
func parseConsole(line string) (m message, err error) {
	fields := strings.SplitN(line, "\t", 4)
	if len(fields) != 4 {
		return m, fmt.Errorf("the console consumer writes %q", line)
	}
	partition, err1 := strconv.ParseInt(strings.TrimPrefix(fields[0], "Partition:"), 10, 32)
	offset, err2 := strconv.ParseInt(strings.TrimPrefix(fields[1], "Offset:"), 10, 64)
	if err := errors.Join(err1, err2); err != nil {
		return m, fmt.Errorf("the console consumer writes %q: %w", line, err)
	}
	return message{partition: int32(partition), offset: offset, key: []byte(fields[2]), value: []byte(fields[3])}, nil
}
