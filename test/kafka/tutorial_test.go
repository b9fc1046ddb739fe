package kafka

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/docket-export/docket/internal/document"
	"github.com/docket-export/docket/internal/document/desk"
	"github.com/docket-export/docket/internal/repo"
	"github.com/docket-export/docket/test/internal/artifact"
	"github.com/docket-export/docket/test/internal/freeport"
	"github.com/docket-export/docket/test/internal/poll"
	"github.com/docket-export/docket/test/kafkatest"
)

// looks matches a block that only shows how things are: a reader repeats it until they are so.
var looks = regexp.MustCompile(`\A(docket status|kcat|jq) `)

// TestTutorial follows the part of docs/gatekeeper-kafka-siem.md that needs no cluster: every block, in an
// empty directory, with a broker of Kafka.
func TestTutorial(t *testing.T) {
	for _, program := range []string{"kcat kcat", "jq jq", "curl curl", "python3 python3"} {
		artifact.Program(t, program)
	}
	part := document.Read(t, "gatekeeper-kafka-siem.md").Section(t, "Part 1: on your machine")
	asCaptured(t, part)
	addresses, err := freeport.Loopback(2)
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(addresses[0])
	if err != nil {
		t.Fatal(err)
	}
	cluster := kafkatest.Start(t, 1)
	cluster.CreateTopic("decisions", 3, 1)
	broker := cluster.Brokers()[0]
	d := desk.New(t, "127.0.0.1:9092", broker, "127.0.0.1:8088", addresses[0], "(sys.argv[1], 8088)", "(sys.argv[1], "+port+")",
		"kind: Exporter\n", "kind: Exporter\nadmin: {address: \""+addresses[1]+"\"}\n")
	t.Cleanup(func() {
		pid, err := os.ReadFile(filepath.Join(d.Dir, "siem.pid"))
		if err == nil && t.Failed() {
			_ = exec.Command("kill", strings.TrimSpace(string(pid))).Run() // it may have ended
		}
	})
	for _, step := range part.Steps() {
		said := ""
		err := poll.Until(stepTimeout, func() error {
			said = d.Do(t, step.Commands)
			err := document.Shows(said, step.Output)
			if err != nil && !looks.MatchString(step.Commands) {
				t.Fatalf("after\n%s%v; printed was\n%s", step.Commands, err, said)
			}
			return err
		})
		if err != nil {
			t.Fatalf("after\n%s%v; printed was\n%s", step.Commands, err, said)
		}
		t.Logf("%s%s", step.Commands, said)
	}
}

// asCaptured compares the records of a page with what Gatekeeper has written.
func asCaptured(t *testing.T, page document.Page) {
	t.Helper()
	root, err := repo.Root()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(root, "testdata", "samples", "gatekeeper*", "*.log"))
	if err != nil {
		t.Fatal(err)
	}
	captured := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			captured[line] = true
		}
	}
	found := 0
	for line := range strings.Lines(page.Text) {
		if strings.HasPrefix(line, `{"id":`) {
			found++
			if !captured[line] {
				t.Errorf("no capture has the line %s", line)
			}
		}
	}
	if found < 5 {
		t.Errorf("the page shows %d records, want 5 at least", found)
	}
}
