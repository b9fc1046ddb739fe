package kafka

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/docket-export/docket/internal/document"
	"github.com/docket-export/docket/test/dockettest"
	"github.com/docket-export/docket/test/internal/artifact"
	"github.com/docket-export/docket/test/internal/poll"
	"github.com/docket-export/docket/test/kafkatest"
)

// TestPage does what docs/sinks/kafka.md and kafka-consumers.md say, command by command: the permissions; the consumers,
// each of which must read what was sent, once, and nothing that was taken back; and what
// stops a sink, with the way out.
func TestPage(t *testing.T) {
	page, consumers := document.Read(t, "sinks/kafka.md"), document.Read(t, "sinks/kafka-consumers.md")
	cluster := kafkatest.StartSecure(t)
	cluster.SetPassword(scramUser, scramPassword)
	cluster.CreateTopic(topic, 3, 1)
	r := newReader(t, cluster, page)

	lines := samples(t)
	r.start(t)
	r.docket.Send(lines)
	r.sees(t, "No permission")
	takeBack(t, cluster, topic, 3)
	r.follow(t, page.Section(t, "Permissions"))
	r.docket.Await("everything to be delivered", deliverTimeout, delivered(bytes.Count(lines, []byte("\n"))))

	want := sorted(string(lines))
	t.Run("kcat", func(t *testing.T) {
		steps := consumers.Section(t, "kcat").Steps()
		r.reads(t, want)
		if got := sorted(r.must(t, steps[1].Commands)); len(got) != len(want)+3 {
			t.Errorf("got %d lines in the log, want the %d that were sent and 3 that were taken back", len(got), len(want))
		}
		r.step(t, steps[2])
	})
	t.Run("console", func(t *testing.T) {
		var got []string
		err := poll.Until(deliverTimeout, func() error { // on a busy machine nothing may come for five seconds
			if got = sorted(r.must(t, consumers.Section(t, "The console consumer").Steps()[0].Commands)); len(got) < len(want) {
				return fmt.Errorf("got %d of %d lines", len(got), len(want))
			}
			return nil
		})
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("got %d lines, %v; want the %d that were sent", len(got), err, len(want))
		}
	})
	t.Run("position", func(t *testing.T) { r.follow(t, page.Section(t, "Exactly once")) })
	t.Run("copies", func(t *testing.T) { r.copies(t, slices.Clone(want)) })
}

// copies runs dockets with one queue: an older copy of it, two at a time, and the older copy
// again. What each of them stores is in the topic.
func (r *reader) copies(t *testing.T, want []string) {
	r.docket.Stop()
	older := r.copy(t)
	// As brokers do with the offsets of a group that has been idle for long.
	r.must(t, `kafka-consumer-groups.sh --bootstrap-server "$BROKERS" --delete --group "$(kafka-consumer-groups.sh --bootstrap-server "$BROKERS" --list | grep docket-)"`)
	r.start(t)
	r.send(t, "last of the first docket")
	r.docket.Stop()
	newer := r.copy(t)

	older.start(t)
	older.send(t, "first of the older copy")
	older.docket.Stop()

	r.start(t)
	newer.start(t)
	newer.send(t, "first of the second docket")
	r.docket.Send([]byte(record("not in the topic")))
	r.sees(t, "Fenced")
	if err := r.docket.Ready(); err != nil {
		t.Errorf("a docket with a fenced sink is not ready: %v", err)
	}
	r.docket.Kill()
	newer.docket.Stop()
	for _, name := range []string{"last of the first docket", "first of the older copy", "first of the second docket"} {
		want = append(want, strings.TrimSpace(record(name)))
	}
	r.reads(t, want)

	older.start(t)
	older.send(t, "second of the older copy")
	older.docket.Stop()
	r.reads(t, append(want, strings.TrimSpace(record("second of the older copy"))))
}

// reader is a person at a shell, in the directory of a docket.
type reader struct {
	page    document.Page
	docket  *dockettest.Docket
	cluster *kafkatest.Secure
	access  *access
	env     []string
}

// newReader gives the reader the programs of the page.
func newReader(t *testing.T, cluster *kafkatest.Secure, page document.Page) *reader {
	t.Helper()
	artifact.Program(t, "kcat kcat")
	path := strings.Join([]string{filepath.Dir(dockettest.Program(t)), kafkatest.Tools(t), os.Getenv("PATH")}, ":")
	return &reader{
		page:    page,
		docket:  dockettest.New(t),
		cluster: cluster,
		access:  sasl(t, cluster, "SCRAM-SHA-512", scramUser, scramPassword),
		env:     append(os.Environ(), "PATH="+path, "BROKERS="+strings.Join(cluster.Brokers(), ",")),
	}
}

// start runs docket with the sink of the page.
func (r *reader) start(t *testing.T) {
	t.Helper()
	_, sink, _ := strings.Cut(r.page.Section(t, "Exactly once").Blocks(t, "yaml")[0], "kafka:\n")
	sink = strings.NewReplacer(
		"kafka-1.example.com:9093, kafka-2.example.com:9093", strconv.Quote(r.access.address),
		"ca.crt", strconv.Quote(r.cluster.CA.File),
		"passwordFile: password", "passwordFile: "+strconv.Quote(r.access.secret),
		"\n    ", "\n",
	).Replace(strings.TrimSuffix("\n"+sink, "\n"))
	r.docket.Start(configTo(r.docket, strings.TrimPrefix(sink, "\n")))
}

// copy is a docket of its own with what the first one has, which is stopped.
func (r *reader) copy(t *testing.T) *reader {
	t.Helper()
	c := *r
	c.docket = dockettest.New(t)
	if out, err := exec.Command("cp", "-a", filepath.Join(r.docket.Dir, "queue"), r.docket.ExportDirectory(), c.docket.Dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return &c
}

// record is a line with a name in it.
func record(name string) string {
	return fmt.Sprintf(`{"resourceKind":"Pod","resourceName":%q}`, name) + "\n"
}

// send sends a record, and waits until the topic has it.
func (r *reader) send(t *testing.T, name string) {
	t.Helper()
	r.docket.Send([]byte(record(name)))
	r.docket.Await("the record to be delivered", deliverTimeout, caughtUp)
}

// caughtUp returns nil when the sink bus is Active and has delivered everything.
func caughtUp(s dockettest.Status) error {
	if sink, l := s.Sink("bus"), s.Ledger.Sinks["bus"]; sink.State != "Active" || l.Pending > 0 {
		return fmt.Errorf("sink bus is %+v, with %+v", sink, l)
	}
	return nil
}

// row is what the page says of something that stops a sink.
func (r *reader) row(t *testing.T, symptom string) []string {
	t.Helper()
	for _, row := range r.page.Section(t, "When the sink is in Error").Rows() {
		if row[0] == symptom && len(row) == 5 {
			return row
		}
	}
	t.Fatalf("the page has no row %q", symptom)
	return nil
}

// sees awaits what a row shows, and returns it.
func (r *reader) sees(t *testing.T, symptom string) (said string) {
	t.Helper()
	row := r.row(t, symptom)
	err := poll.Until(deliverTimeout, func() error {
		said = r.must(t, strings.Join(document.Quoted(row[1]), ""))
		for _, want := range document.Quoted(row[2]) {
			if !document.Says(said, want) {
				return fmt.Errorf("%s: the page shows %q, got\n%s", symptom, want, said)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: %s", symptom, said)
	return said
}

// reads compares what a consumer of committed records gets, in any order.
func (r *reader) reads(t *testing.T, want []string) {
	t.Helper()
	want = slices.Sorted(slices.Values(want))
	if got := sorted(r.must(t, document.Read(t, "sinks/kafka-consumers.md").Section(t, "kcat").Steps()[0].Commands)); !slices.Equal(got, want) {
		t.Errorf("got %d lines, want the %d that were sent", len(got), len(want))
	}
}

// stepTimeout is far beyond what one block of commands takes.
const stepTimeout = 2 * time.Minute

func (r *reader) shell(ctx context.Context, commands string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", commands)
	cmd.Dir, cmd.Env = r.docket.Dir, r.env
	return cmd
}

// must runs commands, which must succeed, and returns their standard output.
func (r *reader) must(t *testing.T, commands string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), stepTimeout)
	defer cancel()
	var stderr bytes.Buffer
	cmd := r.shell(ctx, commands)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s%s%s%v", commands, out, stderr.Bytes(), err)
	}
	return string(out)
}

// step runs a block, whose output must be that of the page.
func (r *reader) step(t *testing.T, step document.Step) {
	t.Helper()
	said := r.must(t, step.Commands)
	t.Logf("%s%s", step.Commands, said)
	if err := document.Shows(said, step.Output); err != nil {
		t.Error(err)
	}
}

// follow runs every block of a section.
func (r *reader) follow(t *testing.T, section document.Page) {
	t.Helper()
	for _, step := range section.Steps() {
		r.step(t, step)
	}
}

const takenBack = "taken back"

// takeBack writes a record to each partition of a topic in a transaction that is aborted.
func takeBack(t *testing.T, cluster *kafkatest.Secure, topic string, partitions int) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.Brokers()...), kgo.TransactionalID("taken-back"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	err = client.BeginTransaction()
	for partition := range partitions {
		if err == nil {
			record := &kgo.Record{Topic: topic, Partition: int32(partition), Value: []byte(takenBack)}
			err = client.ProduceSync(t.Context(), record).FirstErr()
		}
	}
	if err == nil {
		err = client.EndTransaction(t.Context(), kgo.TryAbort)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// sorted returns the lines of text in an order of their own.
func sorted(text string) []string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	slices.Sort(lines)
	return lines
}
