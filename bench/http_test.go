package bench

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"net/http"
	"testing"
	"time"
)

// BenchmarkHTTP is the delivery of a backlog, as ndjson with one request at a time, to a receiver on loopback
// that reads the body and answers 200. The plain program, in a process of its own, posts one ready body of
// the same size again and again. The clock is the receiver's.
func BenchmarkHTTP(b *testing.B) {
	perRequest := 500.0
	b.Run("program=docket", func(b *testing.B) { perRequest = deliver(b, serveHTTP, httpSink).perPart() })
	b.Run("program=plain", func(b *testing.B) {
		n := int(math.Round(perRequest))
		deliverPlain(b, serveHTTP, func(address string) job {
			return &postLoop{"http://" + address, n, backlogRecords / n}
		})
	})
}

func serveHTTP(b *testing.B, c *counter) (address string) { return listen(b, "127.0.0.1:0", c) }

// deliver has docket bring a backlog to a new destination, through a sink whose name is new to the queue. The
// processor time has the start of the process in it, as that of the plain program has.
func deliver(b *testing.B, serve func(*testing.B, *counter) string, sink func(name, address string) string) (sum stint) {
	b.Helper()
	dir := backlog(b, backlogRecords)
	for n := 0; b.Loop(); n++ {
		c, name := newCounter(backlogRecords), fmt.Sprint("sink-", n)
		d := startDocket(b, dir, sink(name, serve(b, c)))
		came := c.wait(b)
		d.awaitDelivered(name, backlogRecords) // the last answer may still be on its way
		came.cpu = d.cpu()
		sum.add(came)
		d.stop() // in order, or the next docket would deliver what this one has not noted
	}
	sum.report(b)
	return sum
}

// deliverPlain has the plain program bring as much to new destinations.
func deliverPlain(b *testing.B, serve func(*testing.B, *counter) string, loop func(address string) job) {
	b.Helper()
	var sum stint
	for b.Loop() {
		c := newCounter(backlogRecords * 9 / 10) // its requests have a fixed size, and may come to less
		d := perform(b, loop(serve(b, c)))
		came := c.wait(b)
		came.cpu = d.CPU
		sum.add(came)
	}
	sum.report(b)
}

// postLoop is the plain program.
type postLoop struct {
	URL                string
	PerRequest, Number int
}

func (o *postLoop) run() (done, error) {
	body := recordsOf(o.PerRequest)
	client := &http.Client{Timeout: time.Minute}
	return timed(1, func(int) error {
		for range o.Number {
			res, err := client.Post(o.URL, "application/x-ndjson", bytes.NewReader(body))
			if err != nil {
				return err
			}
			_, err = io.Copy(io.Discard, res.Body)
			res.Body.Close()
			if err != nil || res.StatusCode != http.StatusOK {
				return fmt.Errorf("the receiver says %s: %w", res.Status, err)
			}
		}
		return nil
	})
}
