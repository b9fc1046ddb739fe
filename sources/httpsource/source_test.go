package httpsource

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/sources"
	"github.com/docket-export/docket/sources/sourcetest"
)

// The answer says that everything is durable, and comes no sooner.
func TestAnswersOnceDurable(t *testing.T) {
	t.Parallel()
	in := sourcetest.New()
	defer in.Close()
	r := start(t, in)
	in.Hold()
	answered := make(chan int, 1)
	go func() {
		status, _, _ := r.tryPost(eventsOf("a", "b", "c"))
		answered <- status
	}()
	await.Until(t, "the events are submitted", func() bool { return in.Pending() == 3 })
	in.Settle(2)
	select {
	case status := <-answered:
		t.Fatalf("got the answer %d with an event that is not durable", status)
	case <-time.After(20 * time.Millisecond): // time for it to go wrong
	}
	in.Release()
	if status := <-answered; status != http.StatusOK {
		t.Errorf("got the answer %d, want 200", status)
	}
	checkIDs(t, in.Lines(), "a", "b", "c")
}

// What comes again is recognised: whole bodies, events in other bodies, and twice in one.
func TestKnownAgain(t *testing.T) {
	t.Parallel()
	in := sourcetest.New()
	defer in.Close()
	r := start(t, in)
	r.mustPost(eventsOf("a", "b"))
	r.mustPost(eventsOf("a", "b"))
	r.mustPost(eventsOf("c", "b", "d", "c"))
	checkIDs(t, in.Lines(), "a", "b", "c", "d")
	if in.Known() != 4 {
		t.Errorf("got %d duplicates, want 4", in.Known())
	}
	for i, l := range in.Lines() {
		if l.Number != uint64(i+1) {
			t.Errorf("got the number %d for line %d", l.Number, i+1)
		}
	}
}

// A body that comes again while the first is under way is answered no sooner.
func TestKnownUnderWay(t *testing.T) {
	t.Parallel()
	in := sourcetest.New()
	defer in.Close()
	r := start(t, in)
	in.Hold()
	const clients = 8
	answered := make(chan int, clients)
	for range clients {
		go func() {
			status, _, _ := r.tryPost(eventsOf("a", "b"))
			answered <- status
		}()
	}
	await.Until(t, "all are recognised", func() bool { return in.Pending() == 2 && in.Known() == 2*(clients-1) })
	select {
	case status := <-answered:
		t.Fatalf("got the answer %d before the first is durable", status)
	case <-time.After(20 * time.Millisecond): // time for it to go wrong
	}
	in.Release()
	for range clients {
		if status := <-answered; status != http.StatusOK {
			t.Errorf("got the answer %d, want 200", status)
		}
	}
	checkIDs(t, in.Lines(), "a", "b")
}

// The last batch of a large body has only events that are durable already: the answer waits for
// the batches before.
func TestAnswersOnceEveryBatchIsDurable(t *testing.T) {
	t.Parallel()
	in := sourcetest.New()
	defer in.Close()
	r := start(t, in)
	r.mustPost(eventsOf("known"))
	in.Hold()
	var ids []string
	for i := range maxBatchEvents {
		ids = append(ids, strconv.Itoa(i))
	}
	answered := make(chan int, 1)
	go func() {
		status, _, _ := r.tryPost(eventsOf(append(ids, "known")...))
		answered <- status
	}()
	await.Until(t, "both batches are there", func() bool { return in.Pending() == maxBatchEvents && in.Known() == 1 })
	select {
	case status := <-answered:
		t.Fatalf("got the answer %d with a batch that is not durable", status)
	case <-time.After(20 * time.Millisecond): // time for it to go wrong
	}
	in.Release()
	if status := <-answered; status != http.StatusOK {
		t.Errorf("got the answer %d, want 200", status)
	}
}

// A client that does not get its answer in time hears so, and its events are known when
// they come again.
func TestLate(t *testing.T) {
	t.Parallel()
	in := sourcetest.New()
	defer in.Close()
	r := start(t, in)
	r.source.server.Load().commitWait = 50 * time.Millisecond
	in.Hold()
	for range 3 {
		status, text := r.post(eventsOf("a", "b"))
		if status != http.StatusServiceUnavailable || !strings.Contains(text, "send the body again") {
			t.Fatalf("got the answer %d %q, want 503", status, text)
		}
	}
	in.Release()
	r.source.server.Load().commitWait = await.Left(t)
	r.mustPost(eventsOf("a", "b"))
	checkIDs(t, in.Lines(), "a", "b")
}

// Events that the intake refuses are handled: the body is answered well.
func TestRefusedEvents(t *testing.T) {
	t.Parallel()
	in := sourcetest.New()
	defer in.Close()
	r := start(t, in)
	r.mustPost(`[1,{"id":"a"},"x",{"id":"b","long":"` + strings.Repeat("x", testLimit) + `"},{"id":"c"}]`)
	checkIDs(t, in.Lines(), "a", "c")
	refused := map[sources.Reason]int{}
	for _, l := range in.Lines() {
		refused[l.Refused]++
		if len(l.Text) > prefixBytes {
			t.Errorf("got %d bytes of a line, want at most %d", len(l.Text), prefixBytes)
		}
	}
	if refused[sources.InvalidJSON] != 2 || refused[sources.TooLarge] != 1 {
		t.Errorf("got %v refused, want 2 as no objects and 1 as too large", refused)
	}
}

// A large body goes through in several batches, in its order.
func TestLargeBody(t *testing.T) {
	t.Parallel()
	in := sourcetest.New()
	defer in.Close()
	r := start(t, in)
	var ids []string
	for i := range 3*maxBatchEvents + 5 {
		ids = append(ids, strings.Repeat("i", 5)+time.Duration(i).String())
	}
	r.mustPost(eventsOf(ids...))
	r.mustPost(eventsOf(ids...))
	lines := in.Lines()
	if len(lines) != len(ids) {
		t.Fatalf("got %d events, want %d", len(lines), len(ids))
	}
	for i, l := range lines {
		if !strings.Contains(l.Text, ids[i]) {
			t.Fatalf("event %d: got %q, want that with id %q", i, l.Text, ids[i])
		}
	}
}

// A stop answers who is waiting, and ends connections that wait for nothing.
func TestStop(t *testing.T) {
	t.Parallel()
	in := sourcetest.New()
	defer in.Close()
	r := start(t, in)
	r.source.server.Load().stopWait = time.Hour // as long as it takes to see that it has begun
	r.mustPost(eventsOf("a"))                   // its connection stays
	in.Hold()
	answered := make(chan int, 1)
	go func() {
		status, _, _ := r.tryPost(eventsOf("b"))
		answered <- status
	}()
	await.Until(t, "the event is submitted", func() bool { return in.Pending() == 1 })
	ended := make(chan error, 1)
	go func() { ended <- r.end() }()
	await.Until(t, "nobody new is let in", func() bool {
		resp, err := http.Get("http://" + r.source.Addr().String())
		if err == nil {
			resp.Body.Close()
		}
		return err != nil
	})
	in.Release()
	if status := <-answered; status != http.StatusOK {
		t.Errorf("got the answer %d, want 200", status)
	}
	if err := <-ended; err != nil {
		t.Errorf("got %v, want no error of a stop", err)
	}
	if r.source.Addr() != nil || r.source.Connections() != 0 {
		t.Errorf("got address %v and %d connections of a source that has ended", r.source.Addr(), r.source.Connections())
	}
}

// Another source of the same name takes over, and this one ends.
func TestTakenOver(t *testing.T) {
	t.Parallel()
	in := sourcetest.New()
	defer in.Close()
	first := start(t, in)
	first.mustPost(eventsOf("a"))
	second := start(t, in)
	second.mustPost(eventsOf("a", "b"))
	select {
	case err := <-first.ended:
		if err == nil {
			t.Error("got no error of a source that was evicted")
		}
		first.ended <- err
	case <-time.After(await.Left(t)):
		t.Fatal("the first goes on")
	}
	checkIDs(t, in.Lines(), "a", "b")
}

// The address in use is an error that says so, before ready.
func TestCannotListen(t *testing.T) {
	t.Parallel()
	in := sourcetest.New()
	defer in.Close()
	r := start(t, in)
	other := New(Config{Address: r.source.Addr().String(), MaxConnections: 1}, testProtocol, r.source.env)
	err := other.Run(context.Background(), in, func() { t.Error("got ready") })
	if err == nil || !strings.Contains(err.Error(), "choose another address") {
		t.Errorf("got %v, want an error that says what to do", err)
	}
	outside := New(Config{Address: "0.0.0.0:0", MaxConnections: 1}, testProtocol, r.source.env)
	err = outside.Run(context.Background(), in, func() { t.Error("got ready") })
	if err == nil || !strings.Contains(err.Error(), "set tls") {
		t.Errorf("got %v, want an error that says what to do", err)
	}
}
