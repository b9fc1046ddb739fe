package opa

import (
	"fmt"
	"slices"
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
			e := startEngine(t, network.Address(), u, 15) // docket itself answers within 5, also on a slow disk
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
			var failed [3]bool // uploads of each instance, when that may cost decisions
			failed[0] = uploadsFail(t, e, e.Stop)
			failed[1] = uploadsFail(t, e, func() {
				e.Restart()
				awaitMore(d, 2000)
				e.Kill()
			})
			e.Restart()
			awaitMore(d, 500)
			d.Kill()
			awaitFailure(t, e)
			d.Start(configuration)
			awaitMore(d, 500)
			answered := l.stop()
			failed[2] = uploadsFail(t, e, e.Stop)
			status := awaitDelivered(d)
			d.Stop()

			logged, seen := e.logged(t), exported(t, d.ExportDirectory())
			o := compare(t, logged, seen)
			instances := byInstance(logged)
			if len(instances) != 3 {
				t.Fatalf("%d instances of OPA have logged decisions, want 3", len(instances))
			}
			buffered := 0 // lost with the memory of OPA
			for _, lost := range byInstance(o.lost) {
				i := slices.IndexFunc(instances, func(of []event) bool { return of[0].instance == lost[0].instance })
				switch {
				case i == 1 && !failed[i]:
					checkTail(t, instances[i], lost)
				case i != 1 && !failed[i]:
					t.Errorf("%d decisions of an instance that was not killed are lost: %s", len(lost), ids(lost))
					continue
				}
				buffered += len(lost)
			}
			checkAnswered(t, answered, logged)
			if status.Ledger.Duplicate == 0 {
				t.Error("docket has recognised no decision that it had, and OPA has sent some again")
			}
			t.Logf("summary: logged %d, seen %d, duplicates %d (%d recognised and not stored again), lost %d and %d with the memory of OPA; docket killed %d times, OPA stopped, killed; uploads failed meanwhile: %v",
				o.logged, o.seen, o.duplicates, status.Ledger.Duplicate, len(o.lost)-buffered, buffered, kills+1, failed)
		})
	}
}

const (
	// failure is what OPA says of every upload that fails.
	failure = "log upload failed"
	// unsent is what OPA says when it has stopped before it had sent everything.
	unsent = "decisions possibly still in buffer"
)

// uploadsFail does something and says whether an upload of OPA has failed meanwhile, or
// had no time. OPA sends what failed behind what is newer, and not at all when it stops:
// it takes that back where its last upload does not look any more (sizeBuffer.Upload of
// its plugins/logs).
func uploadsFail(t *testing.T, e *engine, do func()) bool {
	t.Helper()
	said := func() int { return e.said(t, failure) + e.said(t, unsent) }
	before := said()
	do()
	return said() > before
}

// awaitFailure waits until an upload fails.
func awaitFailure(t *testing.T, e *engine) {
	t.Helper()
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
