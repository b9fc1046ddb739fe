package kafkatest_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/test/internal/poll"
	"github.com/docket-export/docket/test/kafkatest"
)

// TestTools runs one of Kafka's own commands, which prints nothing but what it is asked for.
func TestTools(t *testing.T) {
	tools := kafkatest.Tools(t)
	cluster := kafkatest.Start(t, 1)
	cluster.CreateTopic("decisions", 1, 1)
	producer := newProducer(cluster)
	if err := poll.Until(2*time.Minute, func() error { return produce(producer, "decisions", 0, "the record") }); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(tools, "kafka-console-consumer.sh"),
		"--bootstrap-server", strings.Join(cluster.Brokers(), ","), "--topic", "decisions", "--from-beginning", "--max-messages", "1")
	out, err := cmd.Output()
	if err != nil || string(out) != "the record\n" {
		t.Errorf("got %q, %v; want the record alone", out, err)
	}
}
