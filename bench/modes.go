package main

import (
	"fmt"
	"time"

	"github.com/docket-export/docket/bench/load"
	"github.com/docket-export/docket/bench/record"
	"github.com/docket-export/docket/bench/trial"
)

// modeTurns is how often the modes take turns in one measurement, after a turn that warms
// the brokers.
const modeTurns = 1

// mode is a way of docket to deliver to Kafka.
type mode struct {
	key    string // of the row with its rate
	batch  int    // records, as configured
	option string // of the sink
}

const (
	atLeastOnce = "delivery: AtLeastOnce"
	exactlyOnce = "delivery: ExactlyOnce"
)

// modes are those of a table: both ways at the batch of most sinks and at that of Kafka.
func modes() []mode {
	return []mode{
		{"least500", 500, atLeastOnce}, {"once500", 500, exactlyOnce},
		{"off4000", 4000, "idempotence: Off"}, {"least4000", 4000, atLeastOnce}, {"once4000", 4000, exactlyOnce},
	}
}

func (l *lab) modesOfOne() values   { return l.modesOf(1) }
func (l *lab) modesOfThree() values { return l.modesOf(3) }

// modesOf measures each mode with a cluster of so many nodes.
func (l *lab) modesOf(nodes int) values {
	cluster := l.startKafka(nodes)
	l.warmKafka(cluster)
	dir, records := l.backlogOf(l.records)
	sums := stints{}
	for turn := range modeTurns + 1 {
		for _, m := range modes() {
			done := l.deliverMode(cluster, dir, fmt.Sprint(m.key, "-", turn), m, records)
			if turn > 0 {
				sums.add(m.key, done)
			}
		}
	}
	v := values{}
	for _, m := range modes() {
		sum := sums[m.key]
		v[m.key], v[m.key+"CPU"] = sum.rate(), sum.cpuOfMillion()
		if m.option == exactlyOnce {
			v[m.key+"Records"] = sum.perPart()
		}
	}
	return v
}

// warmTime is enough on a machine that does nothing else.
const warmTime = 10 * time.Second

// warmKafka has a docket write small transactions, as many as make the machine code of a
// broker's common paths. A backlog is a few transactions, and a broker that has just
// started needs several times as long for one.
func (l *lab) warmKafka(cluster *kafkaCluster) {
	l.part(func(l *lab) {
		const sink = "warm"
		cluster.createTopic(sink)
		s := l.start(l.scratch(), kafkaSink(sink, cluster, "{maxWait: 0s}", exactlyOnce))
		p := trial.Must(load.Connect(s.socket, 0, record.NewBlock(0)))
		defer p.Close()
		for began := time.Now(); s.metric(committedOf(sink)) < float64(l.records)/128 && time.Since(began) < warmTime; {
			trial.Must(p.Send(load.LinesPerWrite, 1))
		}
		s.Stop()
	})
}

// kafkaSink tries again soon: on a busy machine the broker that it asks may hear of a new
// topic later than the one that has created it, and docket would pause for a minute.
func kafkaSink(name string, cluster *kafkaCluster, batch, option string) string {
	return fmt.Sprintf("- {name: %[1]s, batch: %[2]s, retry: {maxBackoff: 1s}, kafka: {brokers: [%[3]q], topic: %[1]s, %[4]s}}", name, batch, cluster.brokers[0], option)
}

// committedOf is the series of the transactions that a sink has committed.
func committedOf(sink string) string {
	return fmt.Sprintf("docket_sink_transactions_total{outcome=%q,sink=%q}", "committed", sink)
}

// deliverMode has a docket bring the backlog to a new topic, through a sink whose name the
// queue does not know yet. The clock goes from the first records that docket tells of to
// the last; parts are transactions.
func (l *lab) deliverMode(cluster *kafkaCluster, dir, sink string, m mode, records int) (done stint) {
	l.part(func(l *lab) {
		cluster.createTopic(sink)
		s := l.start(dir, kafkaSink(sink, cluster, fmt.Sprintf("{maxRecords: %d, maxBytes: 8Mi}", m.batch), m.option))
		defer s.profile()()
		sofar := func() stint {
			at := stint{Records: s.ledger().Sinks[sink].Delivered, CPU: s.CPUTime()}
			if m.option == exactlyOnce {
				at.Parts = s.metric(committedOf(sink))
			}
			return at
		}
		s.waitDelivered(sink, 1)
		before, began := sofar(), time.Now()
		// A question is some time of docket's processor, and the whole takes a second or so.
		l.Poll("for sink "+sink, 20*time.Millisecond, readyWait, func() bool { return s.ledger().Sinks[sink].Delivered >= records })
		took, after := time.Since(began), sofar()
		done = stint{after.Records - before.Records, after.Parts - before.Parts, took, after.CPU - before.CPU}
		s.Stop() // in order, or the next docket would deliver what this one has not noted
		cluster.deleteTopic(sink)
	})
	return done
}
