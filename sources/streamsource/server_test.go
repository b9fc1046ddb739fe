package streamsource

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/sources/sourcetest"
)

func (r *running) awaitConnections(want int) {
	r.t.Helper()
	await.Until(r.t, fmt.Sprintf("%d connections", want), func() bool { return r.source.Connections() == want })
}

// In plain mode what was written before the stop is read, also from those that
// nobody has accepted yet.
func TestStopReadsWhatPlainProducersWrote(t *testing.T) {
	t.Parallel()
	r := start(t, testLimit)
	var want int
	var stopped []*peer
	for i := range 50 {
		p := r.dial()
		p.send(strings.Repeat("{}\n", i) + "{\"last\":1}")
		want += i + 1
		stopped = append(stopped, p)
	}
	r.stopAndWait()
	if got := len(r.Lines()); got != want {
		t.Errorf("lines after the stop: got %d, want %d", got, want)
	}
	for _, p := range stopped {
		p.expectEnd()
	}
}

// stopIsQuick makes a stop that waits as long as it may wait for ever.
func (r *running) stopIsQuick() { r.source.server.Load().stopWait = time.Hour }

// A stop does not wait for ever: not for the queue, and not for producers that
// do not read.
func TestStopIsBounded(t *testing.T) {
	t.Parallel()
	r := start(t, testLimit)
	stopWait := time.Second / 2
	r.source.server.Load().stopWait = stopWait
	deaf := r.hello("deaf", 1, 0)
	go deaf.Write(bytes.Repeat([]byte("x\n"), 4*maxUnanswered))
	r.await("refusals that nobody reads", func() bool { return len(r.Lines()) >= 1000 })
	r.Hold()
	p := r.hello("p", 1, 0)
	p.send("{\"a\":1}\n{\"a\":2}\n")
	plain := r.dial()
	plain.send("{\"a\":3}\n")
	r.await("pending lines", func() bool { return r.Pending() >= 3 })
	waiting := r.dial() // for an older connection to be decided
	waiting.send(`{"docket":{"version":1,"producer":"p","next":3}}` + "\n")
	p.expectClosing("taken over")

	began := time.Now()
	r.stop()
	waiting.expectClosing("the exporter is stopping")
	r.stopAndWait()
	if took := time.Since(began); took < stopWait {
		t.Errorf("stop: took %v, want about %v", took, stopWait+severWait)
	}
}

func TestManyProducers(t *testing.T) {
	r := start(t, testLimit)
	const producers, lines = 16, 2000
	done := make(chan string, producers)
	for i := range producers {
		p := r.hello(fmt.Sprint("p", i), 1, 0)
		go func() {
			for n := range lines {
				if _, err := fmt.Fprintf(p, "{\"n\":%d}\n", n+1); err != nil {
					done <- err.Error()
					return
				}
			}
			done <- ""
		}()
		go func() { // reads acks
			for {
				if _, err := p.in.ReadString('\n'); err != nil {
					return
				}
			}
		}()
	}
	for range producers {
		if err := <-done; err != "" {
			t.Fatal(err)
		}
	}
	r.await("all lines", func() bool { return len(r.Lines()) == producers*lines })
	checkOnceInOrder(t, r.Lines())
}

// checkOnceInOrder checks that each producer's lines are 1, 2, 3 ...
func checkOnceInOrder(t *testing.T, lines []sourcetest.Line) {
	t.Helper()
	last := map[string]uint64{}
	for _, l := range lines {
		last[l.Producer]++
		if want := last[l.Producer]; l.Number != want || l.Text != fmt.Sprintf(`{"n":%d}`, want) {
			t.Fatalf("producer %s: got line %d %s, want number %d", l.Producer, l.Number, l.Text, want)
		}
	}
}
