package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"path/filepath"
	"time"

	"github.com/docket-export/docket/bench/load"
	"github.com/docket-export/docket/bench/process"
)

const (
	// deliveryTurns is how often docket and the plain programs take turns in one
	// measurement.
	deliveryTurns = 3
	// manyInFlight is a usual maxInFlight for a receiver that is far away.
	manyInFlight = 4
)

// passages are what the delivery of backlogs has come to, as the destination has
// counted it, and below "sender KEY" what the sender has used.
type passages struct{ stints }

func (p passages) add(key string, came, sent stint) {
	p.stints.add(key, came)
	p.stints.add("sender "+key, sent)
}

func (p passages) senderOfMillion(key string) float64 { return p.stints["sender "+key].cpuOfMillion() }

// http measures docket and the plain program with one request at a time, and with
// several.
func (l *lab) http() values {
	dir, records := l.backlogOf(l.records)
	sums := passages{stints{}}
	for turn := range deliveryTurns {
		for _, kind := range []struct {
			docket, plain string
			inFlight      int
		}{{"one", "plain", 1}, {"many", "plainMany", manyInFlight}} {
			sink := fmt.Sprint(kind.docket, "-", turn)
			came, sent := l.deliver(dir, sink, records, serveRecords, func(address string) string { return httpEntry(sink, address, kind.inFlight) })
			sums.add(kind.docket, came, sent)
			came, sent = l.plainHTTP(kind.inFlight, records, came.perPart())
			sums.add(kind.plain, came, sent)
		}
	}
	one := sums.stints["one"]
	return values{
		"rate": one.rate(), "perRequest": one.perPart(), "cpu": sums.senderOfMillion("one"), "receiver": one.cpuOfMillion(),
		"plain": sums.stints["plain"].rate(), "plainCPU": sums.senderOfMillion("plain"),
		"many": sums.stints["many"].rate(), "plainMany": sums.stints["plainMany"].rate(),
	}
}

// kafka measures docket and the plain program.
func (l *lab) kafka() values {
	dir, records := l.backlogOf(l.records)
	sums := passages{stints{}}
	for turn := range deliveryTurns {
		sink := fmt.Sprint("kafka-", turn)
		came, sent := l.deliver(dir, sink, records, serveKafka, func(address string) string { return kafkaEntry(sink, address) })
		sums.add("docket", came, sent)
		came, sent = l.plainKafka(records, came.perPart())
		sums.add("plain", came, sent)
	}
	docket := sums.stints["docket"]
	return values{
		"rate": docket.rate(), "perRequest": docket.perPart(), "cpu": sums.senderOfMillion("docket"), "broker": docket.cpuOfMillion(),
		"plain": sums.stints["plain"].rate(), "plainCPU": sums.senderOfMillion("plain"),
	}
}

// deliver has a docket bring the backlog in dir to a new destination, through a sink whose
// name the queue does not know yet.
func (l *lab) deliver(dir, sink string, records int, serve serveFunc, entry func(address string) string) (came, sent stint) {
	l.part(func(l *lab) {
		d, c := process.Listen("127.0.0.1:0"), newCounter(records)
		s := l.start(dir, entry(d.Addr().String()))
		defer s.profile()()
		cpu := s.CPUOf(func() {
			serve(l.T, d, c)
			came = c.wait(l.T)
		})
		sent = stint{Records: records, CPU: cpu}
		s.waitDelivered(sink, records) // the last answer may still be on its way
		s.Stop()                       // in order, or the next docket would deliver what this one has not noted
	})
	return came, sent
}

// plainHTTP has the plain program post as much, in bodies of the size that docket had.
func (l *lab) plainHTTP(loops, records int, perBody float64) (came, sent stint) {
	per := int(math.Round(perBody))
	o := postLoop{Loops: loops, PerBatch: per, Batches: records / per}
	return l.plain(serveRecords, postLoopCommand, o.Batches*per, func(address string) any {
		o.URL = "http://" + address
		return o
	})
}

// plainKafka has the plain program write as much, in requests of the size that
// docket had.
func (l *lab) plainKafka(records int, perRequest float64) (came, sent stint) {
	per := int(math.Round(perRequest))
	o := produceLoop{PerRequest: per, Requests: max(1, records/per/partitions)}
	return l.plain(serveKafka, produceLoopCommand, partitions*o.Requests*per, func(address string) any {
		o.Broker = address
		return o
	})
}

// plain has a plain program bring so many records to a new destination.
func (l *lab) plain(serve serveFunc, command string, records int, loop func(address string) any) (came, sent stint) {
	l.part(func(l *lab) {
		d, c := process.Listen("127.0.0.1:0"), newCounter(records)
		serve(l.T, d, c)
		done := process.Call[load.Done](l.T, l.Self, command, loop(d.Addr().String()))
		came, sent = c.wait(l.T), stint{Records: records, CPU: done.CPU}
	})
	return came, sent
}

// postLoop is the plain program: each of its goroutines posts the same body again
// and again, one at a time, on a connection of its own that stays open.
type postLoop struct {
	URL      string
	Loops    int // goroutines
	PerBatch int // records in a body
	Batches  int // of all loops together
}

func (o postLoop) run(ctx context.Context) (load.Done, error) {
	ctx, cancel := context.WithTimeout(ctx, load.Wait)
	defer cancel()
	body := commitOf(float64(o.PerBatch))
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = o.Loops // or those above two would be closed after each post
	transport.MaxConnsPerHost = o.Loops     // or it dials one more when none is idle for a moment
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: process.RequestWait}
	return load.Timed(o.Loops, func(i int) error {
		for batch := i; batch < o.Batches; batch += o.Loops {
			if err := postOnce(ctx, client, o.URL, body); err != nil {
				return err
			}
		}
		return nil
	})
}

func postOnce(ctx context.Context, client *http.Client, url string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("the receiver says %s", res.Status)
	}
	return nil
}

// loadFactor is how many times as many records the producers write as in other
// measurements: for some seconds.
const loadFactor = 3

// fullLoad measures docket while everything that it can do is under way: producers
// write as fast as they can, and a file, an HTTP and a Kafka sink read a backlog of
// 5 GB.
func (l *lab) fullLoad() values {
	dir, scratch := l.largeDir(), l.scratch()
	receiver, broker := process.Listen("127.0.0.1:0"), process.Listen("127.0.0.1:0")
	serveRecords(l.T, receiver, newCounter(math.MaxInt))
	serveKafka(l.T, broker, newCounter(math.MaxInt))
	// The names are new to the queue in every round, so that it gives each sink all
	// of the backlog.
	round := filepath.Base(scratch)
	sinks := map[string]string{"file": "file-" + round, "http": "http-" + round, "kafka": "kafka-" + round}
	s := l.startSetup(dir, setup{queue: ", maxBytes: 64Gi", sinks: []string{
		fileEntry(sinks["file"], filepath.Join(scratch, "export")),
		httpEntry(sinks["http"], receiver.Addr().String(), 1), kafkaEntry(sinks["kafka"], broker.Addr().String()),
	}})
	for _, name := range sinks {
		s.waitDelivered(name, 1)
	}
	before, began := s.ledger().Sinks, time.Now()
	lap := s.load(load.Full("", loadFactor*l.records))
	took, after := time.Since(began), s.ledger().Sinks
	v, moved, left := values{"rate": lap.rate(), "memory": s.Memory("VmHWM")}, lap.Records, math.MaxInt
	for key, name := range sinks {
		delivered := after[name].Delivered - before[name].Delivered
		moved += delivered
		v[key] = float64(delivered) / took.Seconds()
		left = min(left, after[name].Pending-lap.Records)
	}
	v["left"], v["cpu"] = float64(max(left, 0)), lap.CPU.Seconds()/float64(moved)*1e6
	return v
}
