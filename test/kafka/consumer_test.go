package kafka

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/test/internal/poll"
	"github.com/docket-export/docket/test/internal/proc"
	"github.com/docket-export/docket/test/kafkatest"
)

// consumeTimeout is far beyond what the consumer needs to reach the end of the topic.
const consumeTimeout = 10 * time.Minute

// consumer is the example consumer, a process of its own.
type consumer struct {
	t       *testing.T
	cluster *kafkatest.Cluster
	binary  string
	dir     string // holds its output and its position
	process *proc.Process
}

// startConsumer builds the example consumer and starts it on a new directory.
func startConsumer(t *testing.T, cluster *kafkatest.Cluster) *consumer {
	t.Helper()
	c := &consumer{t: t, cluster: cluster, binary: filepath.Join(t.TempDir(), "onceconsumer"), dir: t.TempDir()}
	if out, err := exec.Command("go", "build", "-o", c.binary, "./onceconsumer").CombinedOutput(); err != nil {
		t.Fatalf("build the consumer: %v\n%s", err, out)
	}
	c.start()
	t.Cleanup(func() {
		c.process.Kill()
		if t.Failed() {
			t.Logf("the last lines of the consumer:\n%s", c.process.Log().Tail(40))
		}
	})
	return c
}

// start lets the consumer go on where it was, or begin.
func (c *consumer) start() {
	c.t.Helper()
	p, err := proc.Start(exec.Command(c.binary,
		"-brokers", strings.Join(c.cluster.Brokers(), ","), "-topic", topic, "-dir", c.dir))
	if err != nil {
		c.t.Fatal(err)
	}
	c.process = p
}

// restart kills the consumer, wherever it is, and starts it again.
func (c *consumer) restart() {
	c.t.Helper()
	c.process.Kill()
	c.start()
}

// finish waits until everything that is in the topic has been consumed, ends the
// consumer, and returns its lines in their order, and how many redeliveries it
// has dropped.
func (c *consumer) finish() (lines []string, dropped int) {
	c.t.Helper()
	dropped = c.awaitEnd()
	if err := c.process.Stop(stopTimeout); err != nil {
		c.t.Fatalf("stop the consumer: %v", err)
	}
	return c.lines(), dropped
}

const stopTimeout = time.Minute

// awaitEnd waits until the consumer has committed the end of the topic, and
// returns how many redeliveries it has dropped.
func (c *consumer) awaitEnd() (dropped int) {
	c.t.Helper()
	ends := c.cluster.Ends(topic)
	err := poll.Until(consumeTimeout, func() error {
		select {
		case <-c.process.Done():
			c.t.Fatalf("the consumer has ended: %s; it said:\n%s", c.process.End(), c.process.Log().Tail(20))
		default:
		}
		var err error
		dropped, err = c.behind(ends)
		return err
	})
	if err != nil {
		c.t.Fatalf("wait for the consumer: %v", err)
	}
	return dropped
}

// behind returns an error unless the consumer is at the ends of all partitions.
func (c *consumer) behind(ends map[int32]int64) (dropped int, err error) {
	text, err := os.ReadFile(filepath.Join(c.dir, "position.json"))
	if err != nil {
		return 0, err
	}
	var position struct {
		Partitions map[int32]struct {
			Offset  int64
			Dropped int
		}
	}
	if err := json.Unmarshal(text, &position); err != nil {
		return 0, err
	}
	for partition, end := range ends {
		p := position.Partitions[partition]
		if p.Offset != end {
			return 0, fmt.Errorf("the consumer is at offset %d of %d of partition %d", p.Offset, end, partition)
		}
		dropped += p.Dropped
	}
	return dropped, nil
}

// lines is the output of the consumer.
func (c *consumer) lines() []string {
	c.t.Helper()
	text, err := os.ReadFile(filepath.Join(c.dir, "records.ndjson"))
	if err != nil {
		c.t.Fatal(err)
	}
	var lines []string
	for line := range bytes.Lines(text) {
		lines = append(lines, string(bytes.TrimSuffix(line, []byte("\n"))))
	}
	return lines
}
