//go:build soak

package monitoring

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/test/internal/freeport"
)

const (
	// patience is for a test that gets its turn late, on a machine that is busy.
	patience = 3 * time.Minute
	// look is how often Prometheus is asked what fires.
	look = 200 * time.Millisecond
	// healthy is the docket to which nothing happens.
	healthy = "healthy"
)

// firing is one alert of one docket.
type firing struct{ alert, instance string }

// watch is a Prometheus with its dockets.
type watch struct {
	t      *testing.T
	p      *prometheus
	scenes map[string]*scene    // by instance
	since  map[firing]time.Time // when each that ever fired was seen first
	now    map[firing]bool      // those that fire or are about to
}

// look sees what fires now, while records go on to the docket that is well.
func (w *watch) look() {
	w.t.Helper()
	if s := w.scenes[healthy]; s != nil {
		s.Send(s.lines(5, 500))
	}
	alerts, err := w.p.alerts()
	if err != nil {
		w.t.Fatal(err)
	}
	w.now = map[firing]bool{}
	for _, a := range alerts {
		f := firing{a.Labels["alertname"], a.Labels["instance"]}
		w.now[f] = true
		if _, known := w.since[f]; a.State != "firing" || known {
			continue
		}
		w.since[f] = time.Now()
		w.t.Logf("%s fires: %s", f.alert, a.Annotations["summary"])
		for name, text := range a.Annotations {
			if strings.Contains(text, "no value") || strings.Contains(text, "%!") || strings.Contains(text, "error expanding") {
				w.t.Errorf("%s: %s: %s", f.alert, name, text)
			}
		}
	}
}

// await looks until ok says nothing any more.
func (w *watch) await(what string, ok func() string) {
	w.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(look) {
		w.look()
		missing := ok()
		if missing == "" {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("%s: not within %v: %s", what, patience, missing)
		}
	}
}

// awaitFiring looks until all of these have fired.
func (w *watch) awaitFiring(all ...firing) {
	w.t.Helper()
	w.await("alerts", func() string {
		for _, f := range all {
			if w.since[f].IsZero() {
				return fmt.Sprintf("%v has not fired", f)
			}
		}
		return ""
	})
}

// Each alert fires when its cause comes, for that docket, and no other does. The page that
// leads from an alert to its cause is followed for each. Alerts end
// when their causes do.
func TestAlerts(t *testing.T) {
	needRoot(t, "mount a file system that fills up")
	addresses, err := freeport.Loopback(1)
	if err != nil {
		t.Fatal(err)
	}
	w := &watch{
		t: t, scenes: map[string]*scene{}, since: map[firing]time.Time{},
		p: startPrometheus(t, addresses[0], faster(t), "- {job_name: docket, file_sd_configs: [{files: [targets.json]}]}\n"),
	}
	caused := map[string]time.Time{"": time.Now()}
	w.awaitFiring(firing{"DocketAbsent", ""})

	all := incidents()
	var targets []target
	for _, i := range all {
		w.scenes[i.name] = newScene(t)
		i.begins(w.scenes[i.name])
		targets = append(targets, target{w.scenes[i.name].Admin, i.name})
	}
	well := newScene(t)
	well.Start(well.config("", "", ""))
	w.scenes[healthy] = well
	caused["source"] = time.Now() // it is broken from the beginning
	w.p.target(t, append(targets, target{well.Admin, healthy})...)
	// As long as the longest "for" and the windows of what counts.
	for began := time.Now(); time.Since(began) < 8*time.Second; time.Sleep(look) {
		w.look()
	}
	for f := range w.since {
		if f != (firing{"DocketAbsent", ""}) && f.instance != "source" {
			t.Errorf("%v fires before anything is wrong", f)
		}
	}

	want := map[firing]bool{{"DocketAbsent", ""}: true}
	var soon []firing // all but what takes an hour of no audits
	for _, i := range all {
		if i.breaks != nil {
			caused[i.name] = time.Now()
			i.breaks(w.scenes[i.name])
		}
		for _, name := range i.fires {
			want[firing{name, i.name}] = true
			if name != "DocketAuditMissing" {
				soon = append(soon, firing{name, i.name})
			}
		}
	}
	well.Stop() // a restart is no incident
	well.Start(well.config("", "", ""))
	w.awaitFiring(soon...)
	t.Run("dashboard", func(t *testing.T) { dashboardHasData(t, w) })
	page := readPage(t)
	t.Run("page", func(t *testing.T) { page.see(t, w) })
	w.awaitFiring(slices.Collect(maps.Keys(want))...)
	for _, i := range all {
		if i.mends != nil {
			i.mends(w.scenes[i.name])
		}
	}
	t.Run("actions", func(t *testing.T) { page.act(t, w) })
	open := maps.Clone(want)
	maps.DeleteFunc(open, func(f firing, _ bool) bool { return strings.HasPrefix(f.alert, "DocketRecords") }) // these end with time
	w.await("the end of alerts", func() string {
		maps.DeleteFunc(open, func(f firing, _ bool) bool { return !w.now[f] })
		if len(open) == 0 {
			return ""
		}
		return fmt.Sprint(open)
	})
	for f := range w.since {
		if !want[f] {
			t.Errorf("%v has fired, and nothing is wrong there that it is about", f)
			if s := w.scenes[f.instance]; s != nil {
				t.Logf("its ledger is %+v", s.Status().Ledger)
			}
		}
	}
	t.Logf("alert | cause | seconds until it fires, at %d times the shipped speed", speed)
	for _, i := range append(all, incident{cause: "Prometheus has no target", fires: []string{"DocketAbsent"}}) {
		for _, name := range i.fires {
			t.Logf("%s | %s | %.1f", name, i.cause, w.since[firing{name, i.name}].Sub(caused[i.name]).Seconds())
		}
	}
}
