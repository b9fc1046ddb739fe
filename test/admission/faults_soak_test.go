//go:build soak

package admission

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/test/dockettest"
	"github.com/docket-export/docket/test/kubetest"
)

// world is a site with a docket, and taps that a test puts in front of Gatekeeper.
type world struct {
	*site
	docket        *dockettest.Docket
	configuration string // of docket
	directory     string // of its socket
	export        export
	requests      int // of all loads
}

func newWorld(t *testing.T) *world {
	t.Helper()
	d := dockettest.New(t)
	w := &world{site: startSite(t), docket: d, directory: filepath.Join(d.Dir, "run"), export: export{directory: d.ExportDirectory()}}
	must(t, os.Mkdir(w.directory, 0o755))
	w.configuration = configuration(d, w.socket())
	d.Start(w.configuration)
	return w
}

func (w *world) socket() string { return filepath.Join(w.directory, "docket.sock") }

// startTap starts a tap in front of Gatekeeper, which serves under the same name with
// the same authority's certificate.
func (w *world) startTap(t *testing.T, name string, o tapOptions) *tapProcess {
	t.Helper()
	o.upstream, o.upstreamCA = "https://"+w.gatekeeper.Address, w.gatekeeper.CA.File
	o.certificate, o.docket = w.gatekeeper.Certificate, "unix://"+w.socket()
	return startTap(t, name, o)
}

var (
	usual     = tapOptions{decisions: "deny,warn,error"}
	smallest  = tapOptions{docketKeys: "maxBufferedBytes: 64Ki"}
	strict    = tapOptions{docketKeys: "mode: BlockingStrict"}
	splitting = tapOptions{decisions: "deny,warn,error", preset: "gatekeeper"}
)

// pod is the endpoint of a tap: ready when the two containers of its pod are.
func (w *world) pod(p *tapProcess) endpoint {
	return endpoint{p.address, func() error { return errors.Join(p.Ready(), w.gatekeeper.Webhook.Ready()) }}
}

// during sends requests to a namespace of that name until strike returns, and returns
// their answers.
func (w *world) during(t *testing.T, name string, strike func(*load)) []answer {
	t.Helper()
	w.Kubectl("create", "namespace", name)
	began := time.Now()
	l := startLoad(t, w.Cluster, w.client, name)
	strike(l)
	answers := l.stop()
	w.requests += len(answers)
	t.Logf("%s: %d requests in %.1f s", name, len(answers), time.Since(began).Seconds())
	return answers
}

// settle waits until what was exported since the last call is right in the eyes of check.
func (w *world) settle(t *testing.T, check func(exported tally, losses map[string]int) error) {
	t.Helper()
	var records []record
	await(t, "the records", func() error {
		records = append(records, w.export.next(t)...)
		return check(account(records))
	})
}

// unharmed fails unless the faults of docket, or of certificates, changed no verdict,
// and the export has exactly what was decided, less the losses that it tells of itself.
func (w *world) unharmed(t *testing.T, answers []answer) (given tally, losses map[string]int) {
	t.Helper()
	if n := checkOutcomes(t, answers); n > 0 {
		t.Errorf("the webhook has failed %d times", n)
	}
	given = w.verdicts(t, answers)
	w.settle(t, func(exported tally, told map[string]int) error {
		losses = told
		return compare(given, exported).problem(told)
	})
	return given, losses
}

// kept is unharmed, with no losses.
func (w *world) kept(t *testing.T, answers []answer) {
	t.Helper()
	given, losses := w.unharmed(t, answers)
	if len(losses) > 0 {
		t.Errorf("docket tells of losses: %v", losses)
	}
	t.Logf("of verdicts %v all are exported once, and nothing else", given.byDecision())
}

// TestFaults lets each part fail in turn under a load. What the engine decides does not
// change while docket fails, and the export has what the audit log has: all of it while
// the tap lives, the rest told as lost, and what a tap takes with it when it is killed is
// measured.
func TestFaults(t *testing.T) {
	w := newWorld(t)
	w.direct(t)
	w.engineKilledDirectly(t)
	one := w.startTap(t, "tap one", usual)
	w.service.move(w.pod(one))
	w.calm(t)
	w.docketKilled(t)
	w.docketFrozen(t)
	w.directoryUnmounted(t)
	w.engineKilled(t, one)
	w.certificatesRotated(t, one)
	last := w.tapsRolled(t, one)
	w.docketAway(t, last)
	w.tapKilled(t, last)
	w.bothKilled(t, last)
	last.Stop()
	w.strict(t)
	w.split(t)
	w.nothingMore(t)
	if t.Logf("summary: %d requests", w.requests); w.requests < 5000 {
		t.Error("they are too few")
	}
}

// direct is the control: requests that no tap stands in the way of. The oracle is right
// about them: the audit log tells of each denial that a client has seen, and of no other.
func (w *world) direct(t *testing.T) {
	answers := w.during(t, "direct", func(l *load) { l.awaitMore(t, 500) })
	if n := checkOutcomes(t, answers); n > 0 {
		t.Errorf("Gatekeeper has failed %d times", n)
	}
	seen := make(tally)
	for _, a := range answers {
		if v := a.verdict(); v.decision != allowed {
			seen[v]++
		}
	}
	if err := compare(seen, w.verdicts(t, answers)).problem(nil); err != nil {
		t.Error(err)
	}
}

// engineKilledDirectly is the control of engineKilled.
func (w *world) engineKilledDirectly(t *testing.T) {
	answers := w.during(t, "engine-killed-directly", func(l *load) { w.killEngine(t, l, w.engine()) })
	failures, others := outcomesOf(answers)
	t.Logf("requests refused because Gatekeeper was away: %d; verdicts of a Gatekeeper that did not know all constraints yet: %d", failures, others)
	w.log.next(t)
}

func (w *world) calm(t *testing.T) {
	w.kept(t, w.during(t, "calm", func(l *load) { l.awaitMore(t, 500) }))
}

// docketKilled kills docket more often than once in a second.
func (w *world) docketKilled(t *testing.T) {
	w.kept(t, w.during(t, "docket-killed", func(l *load) {
		for range 10 {
			l.awaitMore(t, 80)
			w.docket.Kill()
			w.docket.Start(w.configuration)
		}
		l.awaitMore(t, 80)
	}))
}

// docketFrozen lets docket hang, so that its socket takes connections and nobody reads.
func (w *world) docketFrozen(t *testing.T) {
	w.kept(t, w.during(t, "docket-frozen", func(l *load) {
		for range 2 {
			w.docket.Freeze()
			l.awaitMore(t, 250)
			w.docket.Thaw()
			l.awaitMore(t, 50)
		}
	}))
}

// directoryUnmounted takes the directory of the socket away, and what listens in it.
func (w *world) directoryUnmounted(t *testing.T) {
	if err := mount(w.directory); err != nil {
		t.Logf("the directory of the socket stays: another needs the right to mount one: %v", err)
		if os.Getenv("CI") == "true" {
			t.Fail()
		}
		return
	}
	w.docket.Kill()
	w.docket.Start(w.configuration)
	w.kept(t, w.during(t, "directory-unmounted", func(l *load) {
		l.awaitMore(t, 100)
		must(t, unmount(w.directory))
		l.awaitMore(t, 100) // the connection is still there
		w.docket.Kill()
		must(t, os.RemoveAll(w.directory))
		l.awaitMore(t, 250)
		must(t, os.Mkdir(w.directory, 0o755))
		w.docket.Start(w.configuration)
		l.awaitMore(t, 50)
	}))
}

func mount(directory string) error {
	return exec.Command("mount", "-t", "tmpfs", "tmpfs", directory).Run()
}

func unmount(directory string) error { return exec.Command("umount", "-l", directory).Run() }

// gatekeeperUser is who Gatekeeper is for the API server. The loads are other users.
const gatekeeperUser = "admin"

// engineKilled kills Gatekeeper. Each request that the tap has refused for it has its
// record, and so has each verdict.
func (w *world) engineKilled(t *testing.T, p *tapProcess) {
	answers := w.during(t, "engine-killed", func(l *load) { w.killEngine(t, l, w.pod(p)) })
	failures, others := outcomesOf(answers)
	given := w.verdicts(t, answers)
	counts := given.byDecision()
	if counts[failed] == 0 || counts[failed]+counts[unanswered] < failures {
		t.Errorf("the audit log has %v, and clients have seen %d failures", counts, failures)
	}
	w.settle(t, func(exported tally, losses map[string]int) error {
		d := compare(given, exported)
		d.missing = answered(d.missing) // the others have a record only if the engine had begun to answer
		// Gatekeeper's own requests end with it: nobody waits for them, and the audit log does not say that the webhook failed.
		maps.DeleteFunc(d.foreign, func(v verdict, _ int) bool { return v.decision == failed && v.user == gatekeeperUser })
		return d.problem(losses)
	})
	t.Logf("of verdicts %v all that the tap gave are exported once, and nothing else; verdicts of a Gatekeeper that did not know all constraints yet: %d", counts, others)
}

// killEngine kills Gatekeeper several times, and each time starts it again. It serves
// before it knows its constraints, and is kept out of the Service until it says that it
// does. Nothing may reach it then: not over a connection from before either.
func (w *world) killEngine(t *testing.T, l *load, pod endpoint) {
	for range 3 {
		l.awaitMore(t, 100)
		w.gatekeeper.Webhook.Kill()
		l.awaitMore(t, 50)
		w.service.route()
		w.gatekeeper.Webhook.Restart()
		from := time.Now()
		l.awaitMore(t, 50)
		until := time.Now()
		w.service.route(pod)
		answers := l.between(from, until)
		if failures, _ := outcomesOf(answers); failures < len(answers) {
			t.Errorf("%d of %d verdicts came from a Gatekeeper that was not in the Service", len(answers)-failures, len(answers))
		}
	}
	l.awaitConstraints(t)
}

// answered is what remains of verdicts without those that nobody gave: the tap was not
// asked, as it was not ready or not there.
func answered(given tally) tally {
	rest := maps.Clone(given)
	maps.DeleteFunc(rest, func(v verdict, _ int) bool { return v.decision == unanswered })
	return rest
}

// certificatesRotated replaces the certificates of the tap and of Gatekeeper.
func (w *world) certificatesRotated(t *testing.T, p *tapProcess) {
	w.kept(t, w.during(t, "certificates-rotated", func(l *load) {
		for range 6 {
			pair := w.gatekeeper.CA.Issue(t, kubetest.WebhookName)
			p.secret.replace(t, pair)
			await(t, "the new certificate", func() error {
				if got := p.presented(t); got != digest(pair.TLS.Certificate[0]) {
					return fmt.Errorf("the tap presents %s", got)
				}
				return nil
			})
			l.awaitMore(t, 80)
		}
	}))
}

// tapsRolled replaces the taps behind the Service one after the other, as a Deployment
// does: a new one comes, and when it is ready one of the old ones goes.
// It returns the one that serves alone in the end.
func (w *world) tapsRolled(t *testing.T, first *tapProcess) *tapProcess {
	taps := []*tapProcess{first, w.startTap(t, "tap two", usual)}
	endpoints := func() (all []endpoint) {
		for _, p := range taps {
			all = append(all, w.pod(p))
		}
		return all
	}
	w.service.route(endpoints()...)
	w.kept(t, w.during(t, "taps-rolled", func(l *load) {
		for i := range 4 {
			taps = append(taps, w.startTap(t, fmt.Sprintf("tap %d", i+3), usual))
			w.service.route(endpoints()...)
			l.awaitMore(t, 100)
			old := taps[0]
			old.Stop()
			taps = taps[1:]
			w.service.route(endpoints()...)
		}
		l.awaitMore(t, 100)
	}))
	taps[0].Stop()
	w.service.move(w.pod(taps[1]))
	return taps[1]
}

// docketAway kills docket for longer than the buffer of a tap lasts. The tap drops records
// then, and the losses that it tells of are what is missing, by decision. Another tap takes
// its place in the end.
func (w *world) docketAway(t *testing.T, next *tapProcess) {
	p := w.startTap(t, "tap of a small buffer", smallest)
	w.service.move(w.pod(p))
	answers := w.during(t, "docket-away", func(l *load) {
		l.awaitMore(t, 50)
		w.docket.Kill()
		l.awaitMore(t, 500)
		w.docket.Start(w.configuration)
		l.awaitMore(t, 50)
	})
	given, losses := w.unharmed(t, answers)
	if len(losses) == 0 {
		t.Error("no record was lost: the buffer has not been full")
	}
	t.Logf("of verdicts %v all are exported once, but for %v that the tap tells of as lost", given.byDecision(), losses)
	w.service.move(w.pod(next))
	p.Stop()
}

// tapKilled kills the tap. Requests fail while there is none, as they do without an
// engine, and no verdict is another.
func (w *world) tapKilled(t *testing.T, p *tapProcess) {
	var kills []period
	answers := w.during(t, "tap-killed", func(l *load) {
		for range 10 {
			l.awaitMore(t, 80)
			p.Kill()
			now := time.Now()
			kills = append(kills, period{now, now})
			p.Restart()
		}
		l.awaitMore(t, 80)
		l.awaitDenial(t)
	})
	missing, oldest := w.lostWithTap(t, answers, kills)
	t.Logf("%d verdicts were lost with the memory of the tap that gave them, and not counted, the oldest given %v before the kill; there were %d kills", missing, oldest, len(kills))
}

// bothKilled kills docket, and the tap while there is none: all that the tap has recorded
// in between is lost, as much as its buffer holds.
func (w *world) bothKilled(t *testing.T, p *tapProcess) {
	var between period
	answers := w.during(t, "both-killed", func(l *load) {
		l.awaitMore(t, 50)
		between.from = time.Now()
		w.docket.Kill()
		l.awaitMore(t, 100)
		p.Kill()
		between.until = time.Now()
		w.docket.Start(w.configuration)
		p.Restart()
		l.awaitMore(t, 50)
		l.awaitDenial(t)
	})
	missing, oldest := w.lostWithTap(t, answers, []period{between})
	if missing == 0 {
		t.Error("no verdict was lost with the tap: this limit is gone, and has to go from the documentation")
	}
	t.Logf("%d verdicts were lost with the memory of a tap that had no docket, and not counted, the oldest given %v before the kill", missing, oldest)
}

// strict kills docket and the tap, in mode BlockingStrict. No verdict arrives whose record
// could be lost: a request is refused instead.
func (w *world) strict(t *testing.T) {
	p := w.startTap(t, "strict tap", strict)
	w.service.move(w.pod(p))
	answers := w.during(t, "strict", func(l *load) {
		for range 4 {
			l.awaitMore(t, 60)
			w.docket.Kill()
			l.awaitMore(t, 10)
			p.Kill()
			w.docket.Start(w.configuration)
			p.Restart()
		}
		l.awaitMore(t, 60)
		l.awaitDenial(t)
	})
	w.lostWithTap(t, answers, nil)
	p.Stop()
}

// split lets Gatekeeper find several violations in one object. With its preset each has a
// record that names the constraint.
func (w *world) split(t *testing.T) {
	p := w.startTap(t, "splitting tap", splitting)
	w.service.move(w.pod(p))
	w.Kubectl("create", "namespace", "split")
	w.Apply(zoneRequired)
	l := &load{cluster: w.Cluster, client: w.client, namespace: "split"}
	r := request{user: "user-0", namespace: l.namespace, kind: "bare"}
	await(t, "a denial for two reasons", func() error {
		r.name = fmt.Sprintf("object-%d", l.sent.Load())
		if a := l.send(t.Context(), r); !strings.Contains(a.message, "[team-required]") || !strings.Contains(a.message, "[zone-required]") {
			return fmt.Errorf("got %+v", a)
		}
		return nil
	})
	want := []string{
		`deny [team-required] you must provide labels: {"team"}`,
		`deny [zone-required] you must provide labels: {"zone"}`,
		`warn [owner-wanted] you must provide labels: {"owner"}`,
	}
	var got []string
	await(t, "the records of the violations", func() error {
		for _, record := range w.export.next(t) {
			if record.ResourceName == r.name {
				got = append(got, fmt.Sprintf("%s [%s] %s", record.Decision, record.Name, record.Message))
			}
		}
		if len(got) < len(want) {
			return fmt.Errorf("there are %d", len(got))
		}
		return nil
	})
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	p.Stop()
}

// period is a time in which a verdict may be lost uncounted: from when docket was gone,
// until the tap was killed.
type period struct{ from, until time.Time }

// memory bounds the time for which a tap has a record in its memory alone while docket
// takes records.
const memory = time.Second

// lostWithTap checks what was exported of a load during which the tap was killed, and
// returns how many verdicts are lost. A record that is not with docket yet dies with the
// tap, and nobody is left to count it. A record may also be of a verdict that died on its
// way, after its record had left. Nothing else is missing, and nothing else is there.
func (w *world) lostWithTap(t *testing.T, answers []answer, kills []period) (missing int, oldest time.Duration) {
	t.Helper()
	checkOutcomes(t, answers)
	asked := make(map[string]answer)
	for _, a := range answers {
		asked[a.name] = a
	}
	given := w.verdicts(t, answers)
	last := answers[len(answers)-1].verdict()
	var all tally
	w.settle(t, func(exported tally, losses map[string]int) error {
		if all = exported; len(losses) > 0 {
			t.Fatalf("losses of %v are told, and nobody knows of any", losses)
		}
		if exported[last] == 0 { // the one before which docket has all others of this tap
			return errors.New("the last record is not there")
		}
		return nil
	})
	d := compare(answered(given), all)
	if d.again.total() > 0 {
		t.Errorf("%d records are there again:%s", d.again.total(), d.again.examples())
	}
	unexplained, undecided := make(tally), make(tally)
	for v, n := range d.missing {
		at := asked[v.name].at
		i := slices.IndexFunc(kills, func(p period) bool { return at.After(p.from.Add(-memory)) && at.Before(p.until.Add(memory)) })
		if i < 0 {
			unexplained[v] = n
			continue
		}
		oldest = max(oldest, kills[i].until.Sub(at))
	}
	for v, n := range d.foreign {
		if n > 1 || !asked[v.name].failed() {
			undecided[v] = n
		}
	}
	if unexplained.total() > 0 {
		t.Errorf("%d verdicts have no record that were given when no tap was about to be killed:%s", unexplained.total(), unexplained.examples())
	}
	if undecided.total() > 0 {
		t.Errorf("%d records are of what was not decided:%s", undecided.total(), undecided.examples())
	}
	t.Logf("of verdicts %v %d have no record; %d records are of verdicts that did not arrive; %d requests were not answered", answered(given).byDecision(), d.missing.total(), d.foreign.total(), given.byDecision()[unanswered])
	return d.missing.total(), oldest
}

// awaitDenial sends requests until one is denied. Its answer is the last of the load.
func (l *load) awaitDenial(t *testing.T) {
	t.Helper()
	l.halt()
	await(t, "a denial", func() error {
		r := request{user: "user-0", namespace: l.namespace, name: fmt.Sprintf("last-%d", l.sent.Load()), kind: "teamless"}
		if a := l.send(t.Context(), r); a.err != nil || a.verdict().decision != denied {
			return fmt.Errorf("got %+v, want a denial", a)
		}
		return nil
	})
}

// nothingMore stops docket, and fails if the export has records that belong to nothing.
func (w *world) nothingMore(t *testing.T) {
	w.docket.Stop()
	if rest := w.export.next(t); len(rest) > 0 {
		t.Errorf("the export has %d records more than were decided: %+v", len(rest), rest[0])
	}
}
