package kafka

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docket-export/docket/client"
	"github.com/docket-export/docket/decision/stream"
	"github.com/docket-export/docket/test/dockettest"
)

const (
	producers = 4
	// Every producer sends sendLines each sendInterval: 4,000 lines a second in
	// all, a steady load that a small machine carries beside a broker.
	sendInterval = 10 * time.Millisecond
	sendLines    = 10
	// flushTimeout is far beyond what a producer waits for: docket's disk and its
	// restart, never a sink.
	flushTimeout = 5 * time.Minute
)

// load is a number of producers that send numbered lines, acknowledged, until
// they are told to stop.
type load struct {
	quit      chan struct{}
	once      sync.Once // closes quit
	wg        sync.WaitGroup
	producers []*producer
}

// producer is one of them. Its fields are its goroutine's until that has ended.
type producer struct {
	id           int // from 1
	sender       *client.Sender
	sent         int
	acknowledged atomic.Uint64
	refused      atomic.Uint64
	err          error // why it ended early
}

// startLoad starts the producers. They end with the test, if not before.
func startLoad(t *testing.T, d *dockettest.Docket) *load {
	t.Helper()
	l := &load{quit: make(chan struct{})}
	t.Cleanup(l.end)
	for id := 1; id <= producers; id++ {
		p := &producer{id: id}
		sender, err := client.NewSender(client.SenderConfig{
			Address: "unix://" + d.Socket,
			Acked:   p.acknowledged.Store,
			Refused: func(stream.Refused) { p.refused.Add(1) },
		})
		if err != nil {
			t.Fatal(err)
		}
		p.sender = sender
		l.producers = append(l.producers, p)
		l.wg.Go(func() { p.err = p.run(l.quit) })
	}
	return l
}

// run sends until quit is closed, and returns when everything is acknowledged.
func (p *producer) run(quit <-chan struct{}) error {
	sent := p.send(quit)
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	_, closed := p.sender.Close(ctx)
	return errors.Join(sent, closed)
}

// send sends until quit is closed.
func (p *producer) send(quit <-chan struct{}) error {
	ticker := time.NewTicker(sendInterval)
	defer ticker.Stop()
	for {
		select {
		case <-quit:
			return nil
		case <-ticker.C:
		}
		if err := p.sendSome(); err != nil {
			return err
		}
	}
}

func (p *producer) sendSome() error {
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	for range sendLines {
		if err := p.sender.Send(ctx, []byte(line(p.id, p.sent+1))); err != nil {
			return fmt.Errorf("send line %d: %w", p.sent+1, err)
		}
		p.sent++
	}
	return nil
}

// stop ends the producers and returns how many lines they have sent, and how many
// of these were acknowledged.
func (l *load) stop(t *testing.T) (sent, acknowledged int) {
	t.Helper()
	l.end()
	for _, p := range l.producers {
		if p.err != nil {
			t.Errorf("producer %d: %v", p.id, p.err)
		}
		if n := p.refused.Load(); n > 0 {
			t.Errorf("producer %d: %d lines were refused", p.id, n)
		}
	}
	return l.sent(), l.acknowledged()
}

// sent is how many lines the producers have sent, once they have ended.
func (l *load) sent() (n int) {
	for _, p := range l.producers {
		n += p.sent
	}
	return n
}

func (l *load) acknowledged() (n int) {
	for _, p := range l.producers {
		n += int(p.acknowledged.Load())
	}
	return n
}

// end stops the producers and waits for them.
func (l *load) end() {
	l.once.Do(func() { close(l.quit) })
	l.wg.Wait()
}

// padding gives a line the size of a small decision.
var padding = strings.Repeat("x", 200)

// line is the line with that number of a producer. Twelve keys spread a
// producer's lines over all partitions; every fifth line has none, so that records
// with and without a key follow each other in a partition.
func line(producer, number int) string {
	key := "null"
	if number%5 != 0 {
		key = fmt.Sprintf(`"k%d"`, number%12)
	}
	return fmt.Sprintf(`{"producer":%d,"number":%d,"key":%s,"padding":"%s"}`, producer, number, key, padding)
}

// numbered returns the first n lines of a producer.
func numbered(n int) []string {
	lines := make([]string, n)
	for i := range lines {
		lines[i] = line(1, i+1)
	}
	return lines
}

// parse returns what line was made of.
func parse(text string) (producer, number int, err error) {
	var fields struct{ Producer, Number int }
	if err := json.Unmarshal([]byte(text), &fields); err != nil {
		return 0, 0, fmt.Errorf("line %q: %w", text, err)
	}
	if text != line(fields.Producer, fields.Number) {
		return 0, 0, fmt.Errorf("got line\n%s\nwant\n%s", text, line(fields.Producer, fields.Number))
	}
	return fields.Producer, fields.Number, nil
}
