package exporter

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/exporter/queue/inspect"
	"github.com/docket-export/docket/exporter/queue/state"
	"github.com/docket-export/docket/internal/fakekafka"
	"github.com/docket-export/docket/sinks"
	"github.com/docket-export/docket/sinks/kafkasink"
	"github.com/docket-export/docket/sources"
)

const (
	lifeTopic      = "decisions"
	lifePartitions = 2
	lifeRecords    = 15
	lifeReplayed   = 8 // the record where the replay begins
	lifeRefused    = 3 // the record that is set aside, and redriven
)

// kafkaLife is an exporter with a sink for Kafka in transactions, and what outlives its
// processes: the brokers, and the directory of the queue as a kill finds it.
type kafkaLife struct {
	*fakekafka.Cluster
	t       *testing.T
	cursors cursors
	first   []byte // the cursors file when a process has just begun
	log     *bytes.Buffer

	dir      string
	process  int
	e        *Exporter
	end      func()
	delivery kafkasink.Delivery
	killed   chan struct{} // closed when the process is killed, and its directory copied
	kills    int
}

func newKafkaLife(t *testing.T, c cursors) *kafkaLife {
	return &kafkaLife{
		Cluster: fakekafka.Start(t, 3, lifePartitions, lifeTopic), t: t, cursors: c, log: &bytes.Buffer{}, delivery: kafkasink.ExactlyOnce,
		dir: filepath.Join(t.TempDir(), "queue"),
	}
}

func (l *kafkaLife) sink(client string) SinkConfig {
	c := kafkasink.Definition.NewConfig().(*kafkasink.Config)
	c.Brokers, c.Topic, c.ClientID = l.ListenAddrs(), lifeTopic, client
	c.Delivery, c.Partitioner, c.Timeout = l.delivery, kafkasink.RoundRobin, config.Duration(time.Minute)
	s := defaultSink()
	s.Name, s.Kind, s.Config = "bus", kafkasink.Definition.Kind, c
	s.Batch = sinks.BatchLimits{MaxRecords: 5, MaxBytes: 1 << 20}
	s.Retry = RetryConfig{InitialBackoff: config.Duration(time.Millisecond), MaxBackoff: config.Duration(2 * time.Millisecond)}
	return s
}

// start begins a process on the queue.
func (l *kafkaLife) start() {
	l.t.Helper()
	l.process++
	client := fmt.Sprint("docket-", l.process)
	from, to, killed := l.dir, filepath.Join(l.t.TempDir(), "queue"), make(chan struct{})
	l.killed = killed
	l.OnDeath(client, func() {
		if err := copyLive(from, to); err != nil {
			l.t.Error(err)
		}
		l.dir = to
		close(killed)
	})
	e, err := New(&Config{
		Queue:  QueueConfig{Directory: l.dir, MaxBytes: 4 << 20, WhenFull: Block, Retain: &RetainConfig{MaxBytes: 1 << 20}},
		Limits: defaultLimits(), Shutdown: ShutdownConfig{DrainTimeout: config.Duration(time.Millisecond)}, Sinks: []SinkConfig{l.sink(client)},
	}, Options{Log: slog.New(slog.NewTextHandler(&locked{w: l.log}, nil))})
	if err != nil {
		l.t.Fatal(err)
	}
	l.e = e
	ctx, stop := context.WithCancel(l.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	l.end = sync.OnceFunc(func() {
		stop()
		<-ended
	})
	l.t.Cleanup(l.end)
	if l.first == nil { // the sink's account is there before the sink asks for anything
		l.until("the first request", func() bool { return len(l.Counts()) > 0 })
		if l.first, err = os.ReadFile(filepath.Join(from, state.CursorsFile)); err != nil {
			l.t.Fatal(err)
		}
	}
}

// restart begins a process on what a kill has left.
func (l *kafkaLife) restart() {
	l.t.Helper()
	if l.kills++; l.kills > 5 {
		l.t.Fatalf("%d processes were killed", l.kills)
	}
	l.end()
	path := filepath.Join(l.dir, state.CursorsFile)
	var err error
	switch l.cursors {
	case fromTheTime:
		err = os.WriteFile(path, l.first, 0o600)
	case lostCursors:
		err = os.Remove(path)
	}
	if err != nil {
		l.t.Fatal(err)
	}
	l.start()
}

// take stores records until there are n.
func (l *kafkaLife) take(n uint64) error {
	s, _, err := intake{ingest: l.e.ingest}.Open(l.t.Context(), sources.Opening{Source: "test"})
	if err != nil {
		return err
	}
	defer s.Close()
	for seq := l.e.queue.LastSeq() + 1; seq <= n; seq++ {
		submit(l.t, s, fmt.Sprintf("{\"n\":%d,\"padding\":1}\n", seq))
	}
	return nil
}

func (l *kafkaLife) account() state.Account { return l.e.queue.Stats().Cursors["bus"] }

// isKilled says whether the process has been killed.
func (l *kafkaLife) isKilled() bool {
	select {
	case <-l.killed:
		return true
	default:
		return false
	}
}

// until waits for ok, or for a kill.
func (l *kafkaLife) until(what string, ok func() bool) {
	l.t.Helper()
	for end := time.Now().Add(await.Left(l.t)); !ok() && !l.isKilled(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			l.t.Fatalf("no time is left to wait for %s; %+v\n%s", what, l.account(), l.log.String())
		}
	}
}

// step does something and waits until ok, by a process after the other as they are killed.
func (l *kafkaLife) step(what string, do func() error, ok func() bool) {
	l.t.Helper()
	for {
		if err := do(); err != nil && !l.isKilled() {
			l.t.Fatalf("%s: %v", what, err)
		}
		l.until(what, ok)
		if !l.isKilled() {
			return
		}
		l.restart()
	}
}

// live delivers records, of which one is rejected and redriven, and some of them again.
func (l *kafkaLife) live() {
	l.t.Helper()
	l.Refuse(`"n":3,`)
	l.start()
	l.step("twelve records", func() error { return l.take(12) }, func() bool { return l.account().Next == 13 })
	if err := l.Settle(); err != nil {
		l.t.Fatal(err)
	}
	l.Refuse("")
	l.step("redriven", func() error {
		_, err := l.e.letters("bus").redrive([]uint64{lifeRefused})
		return err
	}, func() bool {
		_, there, err := l.e.letters("bus").get(strconv.Itoa(lifeRefused))
		return err == nil && !there && l.account().Next == 13
	})
	l.step("three more", func() error { return l.take(lifeRecords) }, func() bool { return l.account().Next == lifeRecords+1 })
	if l.cursors == asTheyWere { // a replay that is asked for is durable
		l.replay()
	}
	l.end()
	if err := l.Settle(); err != nil {
		l.t.Fatal(err)
	}
}

func (l *kafkaLife) replay() {
	l.t.Helper()
	before := l.account().Replayed
	l.step("replayed", func() error {
		if l.account().Replayed > before {
			return nil // the process before has set it back
		}
		_, err := l.e.Replay(l.t.Context(), "bus", inspect.ReplayFrom{Seq: lifeReplayed}, false)
		return err
	}, func() bool { return l.account().Next == lifeRecords+1 && l.account().Replayed > before })
}

// lifeCopy is a record as a consumer tells it from others.
type lifeCopy struct {
	seq  uint64
	late string
}

// judge compares what consumers with read_committed have, and the account, with what the
// life has been.
func (l *kafkaLife) judge() {
	l.t.Helper()
	got, want := map[lifeCopy]int{}, map[lifeCopy]int{}
	for partition := range int32(lifePartitions) {
		records, err := l.Committed(lifeTopic, partition)
		if err != nil {
			l.t.Error(err)
		}
		last := map[string]uint64{}
		for _, r := range records {
			seq, _ := strconv.ParseUint(r.Headers["docket-seq"], 10, 64)
			late := r.Headers["docket-late"]
			if got[lifeCopy{seq, late}]++; seq < last[late] {
				l.t.Errorf("partition %d has record %d behind %d", partition, seq, last[late])
			}
			last[late] = seq
		}
	}
	for seq := uint64(1); seq <= lifeRecords; seq++ {
		if seq != lifeRefused {
			want[lifeCopy{seq, ""}] = 1
		}
		if seq >= lifeReplayed && l.cursors == asTheyWere {
			want[lifeCopy{seq, string(sinks.Replayed)}] = 1
		}
	}
	redriven := lifeCopy{lifeRefused, string(sinks.Redriven)}
	if want[redriven] = 1; got[redriven] == 2 && l.kills > 0 {
		want[redriven] = 2 // the delivery has died before it knew
	}
	if !maps.Equal(got, want) {
		l.t.Errorf("the topic has %v, want %v", got, want)
	}
	a := l.account()
	if a.Delivered != lifeRecords || a.DeadLettered != 0 && a.Next == lifeRecords+1 {
		l.t.Errorf("got the account %+v, want %d delivered", a, lifeRecords)
	}
	at, err := l.Offset("docket-"+l.e.queue.ID()+"-bus", lifeTopic, 0)
	if at != lifeRecords+1 || err != nil {
		l.t.Errorf("the position in Kafka is %d, %v, want %d", at, err, lifeRecords+1)
	}
	if l.t.Failed() {
		l.t.Log(l.log.String())
	}
}

// The whole of an exporter and its sink for Kafka, killed before and behind each request, and
// with each answer lost: a consumer with read_committed has every record once, whatever the
// cursors file has kept.
func TestKafkaExactlyOnceAtEveryRequest(t *testing.T) {
	var effects []fakekafka.Fault
	for _, e := range []fakekafka.Effect{fakekafka.CutBefore, fakekafka.CutAfter, fakekafka.DieBefore, fakekafka.DieAfter, fakekafka.MoveBefore, fakekafka.Expire} {
		effects = append(effects, fakekafka.Fault{Effect: e})
	}
	effects = append(effects, fakekafka.Fault{Effect: fakekafka.Late, Wait: 4}, fakekafka.Fault{Effect: fakekafka.PrepareLost, Wait: 2},
		fakekafka.Fault{Effect: fakekafka.AnswerAfter, Code: kerr.CoordinatorNotAvailable})
	for _, c := range []cursors{asTheyWere, fromTheTime, lostCursors} {
		t.Run(string(c), func(t *testing.T) {
			quiet := newKafkaLife(t, c)
			quiet.live()
			quiet.judge()
			counts := quiet.Counts()
			for _, key := range fakekafka.Judged {
				for nth := range counts[key] {
					for _, f := range effects {
						f.At = fakekafka.Point{Key: key, Nth: nth + 1}
						switch {
						case (f.Effect == fakekafka.PrepareLost || f.Effect == fakekafka.AnswerAfter) && key != kmsg.EndTxn,
							c != asTheyWere && !f.Effect.Kills(), // nothing is lost but by a kill
							testing.Short() && !isChosen(f):
							continue
						}
						t.Run(f.String(), func(t *testing.T) {
							t.Parallel()
							l := newKafkaLife(t, c)
							l.Arm(f)
							l.live()
							l.judge()
						})
					}
				}
			}
		})
	}
}

// isChosen says whether a short run has f: one of so many, and the same every time.
func isChosen(f fakekafka.Fault) bool {
	ofSoMany := uint32(64)
	if f.Effect.Kills() {
		ofSoMany = 24
	}
	return crc32.ChecksumIEEE([]byte(f.String()))%ofSoMany == 0
}
