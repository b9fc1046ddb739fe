package opa

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/docket-export/docket/test/dockettest"
	"github.com/docket-export/docket/test/internal/poll"
	"github.com/docket-export/docket/test/internal/proxy"
)

// TestDecisions kills docket again and again while OPA decides, with an answer on its
// way that OPA never gets, lets docket be slow to answer, stops OPA in order and kills
// it. Every decision that OPA has logged is in the export exactly once, but for those
// that it had not sent yet when it was killed: docket cannot have these, and it has all
// that were decided before them.
func TestDecisions(t *testing.T) {
	for name, u := range map[string]upload{
		"chunks, now and then": {Buffer: "size", Trigger: "periodic"}, // as OPA does by default
		"events, at once":      {Buffer: "event", Trigger: "immediate"},
	} {
		t.Run(name, func(t *testing.T) {
			d, address := dockettest.New(t), listener(t)
			configuration := config(d, address, "", "")
			d.Start(configuration)
			network := proxy.New(t, address)
			e := startEngine(t, network.Address(), u, 3)
			l := startLoad(t, e, 100)

			const kills = 4
			for range kills {
				awaitMore(d, 500)
				proxy.Await(t, network.Strike(proxy.LoseAnswer)) // docket has them; OPA does not know
				d.Kill()
				awaitFailure(t, e)
				d.Start(configuration)
			}
			awaitMore(d, 500)
			d.Freeze()
			awaitFailure(t, e) // it has given up an upload, and docket has yet to read it
			d.Thaw()
			awaitMore(d, 500)
			e.Stop()
			e.Restart()
			awaitMore(d, 2000)
			e.Kill() // the second instance: none of its uploads has failed
			e.Restart()
			awaitMore(d, 500)
			d.Kill()
			awaitFailure(t, e)
			d.Start(configuration)
			awaitMore(d, 500)
			answered := l.stop()
			e.Stop()
			status := awaitDelivered(d)
			d.Stop()

			logged, seen := e.logged(t), exported(t, exportDirectory(d))
			o := compare(t, logged, seen)
			instances := byInstance(logged)
			if len(instances) != 3 {
				t.Fatalf("%d instances of OPA have logged decisions, want 3", len(instances))
			}
			var buffered []event // lost in the memory of OPA
			for _, lost := range byInstance(o.lost) {
				if lost[0].instance == instances[1][0].instance {
					buffered = lost
					checkTail(t, instances[1], lost)
					continue
				}
				t.Errorf("%d decisions of an instance that was not killed are lost: %s", len(lost), ids(lost))
			}
			checkAnswered(t, answered, logged)
			if status.Ledger.Duplicate == 0 {
				t.Error("docket has recognised no decision that it had, and OPA has sent some again")
			}
			t.Logf("summary: logged %d, seen %d, duplicates %d (%d recognised and not stored again), lost %d and %d with the memory of OPA; docket killed %d times, OPA stopped, killed",
				o.logged, o.seen, o.duplicates, status.Ledger.Duplicate, len(o.lost)-len(buffered), len(buffered), kills+1)
		})
	}
}

// awaitFailure waits until an upload fails.
func awaitFailure(t *testing.T, e *engine) {
	t.Helper()
	const failure = "log upload failed"
	before := e.said(t, failure)
	err := poll.Until(deliverTimeout, func() error {
		if e.said(t, failure) == before {
			return fmt.Errorf("OPA has not said %q again", failure)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// checkAnswered fails when a decision was answered and is not in the log: the log
// would not be the truth then that the export is compared with.
func checkAnswered(t *testing.T, answered map[string]bool, logged []event) {
	t.Helper()
	missing := len(answered)
	for _, e := range logged {
		if answered[e.id] {
			missing--
		}
	}
	if missing != 0 {
		t.Errorf("%d of %d answered decisions are not in the log of OPA", missing, len(answered))
	}
}

// unavailable is what OPA says of an upload that is answered 503.
const unavailable = "HTTP 503"

// TestQueueFull lets a sink stand until the queue is full, however it is configured
// to behave then, and kills docket. OPA is told so, keeps what it has, and nothing is
// lost.
func TestQueueFull(t *testing.T) {
	for _, whenFull := range []string{"Block", "Refuse"} {
		t.Run(whenFull, func(t *testing.T) {
			var open atomic.Bool
			receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if !open.Load() {
					w.WriteHeader(http.StatusServiceUnavailable)
					return
				}
				if _, err := io.Copy(io.Discard, r.Body); err != nil {
					panic(http.ErrAbortHandler) // nobody waits for an answer
				}
			}))
			t.Cleanup(receiver.Close)
			d, address := dockettest.New(t), listener(t)
			configuration := config(d, address, ", maxBytes: 16Mi, whenFull: "+whenFull, fmt.Sprintf(`- name: slow
  retry: {initialBackoff: 100ms, maxBackoff: 500ms}
  http: {url: %s/}
`, receiver.URL))
			d.Start(configuration)
			e := startEngine(t, address, upload{Buffer: "size", Trigger: "periodic"}, 10)
			l := startLoad(t, e, 16<<10)
			err := poll.Until(deliverTimeout, func() error {
				if e.said(t, unavailable) == 0 {
					return fmt.Errorf("OPA has not been answered 503; %d decisions are stored", d.Status().Ledger.Stored)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			full := d.Status().Ledger.Stored
			d.Kill() // what it had no room for was not accepted
			d.Start(configuration)
			open.Store(true)
			awaitMore(d, 500)
			answered := l.stop()
			logged := e.logged(t)
			checkAnswered(t, answered, logged)
			// OPA stops in the belief that it has sent everything when an upload fails
			// meanwhile: it puts that back where its last one does not look any more
			// (sizeBuffer.Upload of its plugins/logs).
			awaitStored(d, uint64(len(logged)))
			e.Stop()
			status := awaitDelivered(d)
			d.Stop()
			o := compare(t, logged, exported(t, exportDirectory(d)))
			t.Logf("summary: logged %d, seen %d, duplicates %d (%d recognised and not stored again), lost %d; full with %d, answered 503 %d times",
				o.logged, o.seen, o.duplicates, status.Ledger.Duplicate, len(o.lost), full, e.said(t, unavailable))
			if len(o.lost) > 0 {
				t.Errorf("lost %d decisions: %s", len(o.lost), ids(o.lost))
			}
		})
	}
}
