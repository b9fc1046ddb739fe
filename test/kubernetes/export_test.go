package kubernetes

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/docket-export/docket/test/dockettest"
	"github.com/docket-export/docket/test/kubetest"
)

// auditRun is what these tests read of docket's record about a run.
type auditRun struct {
	EventType  string
	ID         string
	Complete   bool
	Reason     string
	Violations int
	Reported   *int
	Previous   *int `json:"previousViolations"`
}

// isAuditRun is whether a line of the export is docket's own about a run.
func isAuditRun(line string) bool { return strings.Contains(line, `"eventType":"docket.audit.run"`) }

// auditRuns returns the records about runs in the export, in order.
func auditRuns(t *testing.T, d *dockettest.Docket) []auditRun {
	t.Helper()
	var runs []auditRun
	for _, line := range exported(t, d) {
		if isAuditRun(line) {
			var r auditRun
			decode(t, line, &r)
			runs = append(runs, r)
		}
	}
	return runs
}

// awaitRun waits for the record of a run that ok accepts, beyond the first skip ones.
func awaitRun(t *testing.T, d *dockettest.Docket, skip int, what string, ok func(auditRun) bool) auditRun {
	t.Helper()
	var found auditRun
	await(t, what, func() error {
		runs := auditRuns(t, d)
		i := slices.IndexFunc(runs[min(skip, len(runs)):], ok)
		if i < 0 {
			return fmt.Errorf("the records of runs are %+v", runs)
		}
		found = runs[skip+i]
		return nil
	})
	return found
}

// startAudited starts a cluster and a Gatekeeper whose audits find n violations.
func startAudited(t *testing.T, n int, o kubetest.GatekeeperOptions) (*kubetest.Cluster, *kubetest.Gatekeeper) {
	t.Helper()
	c := kubetest.Start(t, kubetest.Options{})
	g := c.StartGatekeeper(o)
	c.Kubectl("create", "namespace", "shop")
	c.Kubectl("create", "namespace", "strict")
	c.Apply(kubetest.RequiredLabels)
	c.Apply(constraint("team-wanted", "dryrun", "shop"))
	awaitConstraints(c, "strict")
	if _, err := c.Try(configMaps("shop", "stock", n), "create", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	return c, g
}

// exportSource is the configuration of d with a disk export.
func exportSource(d *dockettest.Docket, export string) string {
	return config(d, fmt.Sprintf("- name: gatekeeper\n  gatekeeper: {path: %q}", export))
}

// TestDiskExport kills docket while Gatekeeper audits, and kills an audit. Every line
// that Gatekeeper has written is in docket's export exactly once and in order, run by
// run, and after each run there is one record that says whether it was whole.
func TestDiskExport(t *testing.T) {
	const violations = 200
	// docket and the witness are there first, so that each sees every run. What is written
	// while docket is down stays for five audits, longer than a start takes.
	export := t.TempDir()
	d := dockettest.New(t)
	configuration := exportSource(d, export)
	d.Start(configuration)
	w := watch(t, export)
	_, g := startAudited(t, violations, kubetest.GatekeeperOptions{AuditSeconds: 5, MaxAuditResults: 5, Export: export})

	const kills = 3
	for range kills {
		w.awaitFinished(t, 1)
		d.Kill()
		w.awaitFinished(t, 1)
		d.Start(configuration)
	}
	killAudit(t, g, w)
	d.Kill() // it has to know the killed run again as one that nobody writes any more
	d.Start(configuration)
	g.Audit.Restart()
	awaitRun(t, d, 0, "the run that was killed", func(r auditRun) bool { return r.Reason == "Abandoned" })
	w.awaitFinished(t, 1)
	g.Audit.Stop()

	runs := w.runs(t)
	if last := runs[len(runs)-1]; !last.finished {
		runs = runs[:len(runs)-1] // stopped on the way; whether it goes on docket cannot know
	}
	last := runs[len(runs)-1]
	awaitRun(t, d, 0, "the last run", func(r auditRun) bool { return r.ID == last.id })
	d.Stop()
	checkRuns(t, runs, exported(t, d))
	t.Logf("docket was killed %d times, an audit once", kills+1)
}

// killAudit kills the auditing process while it writes to its file.
func killAudit(t *testing.T, g *kubetest.Gatekeeper, w *witness) {
	t.Helper()
	await(t, "an audit to be killed on its way", func() error {
		runs := w.runs(t)
		if last := runs[len(runs)-1]; last.finished || last.violations() == 0 {
			return errors.New("none has been under way")
		}
		g.Audit.Kill()
		if runs := w.runs(t); runs[len(runs)-1].finished {
			g.Audit.Restart()
			return errors.New("it was done before it was killed")
		}
		return nil
	})
}

// checkRuns compares the lines of each run, in their order, and the record that follows
// with what is in the export about it. Nothing else may be there.
func checkRuns(t *testing.T, runs []run, lines []string) {
	t.Helper()
	came := make(map[string][]string) // by run
	for _, line := range lines {
		var record struct{ ID string }
		decode(t, line, &record)
		came[record.ID] = append(came[record.ID], line)
	}
	var total tally
	var previous *int // violations of the last complete run
	deleted := 0
	for _, r := range runs {
		got := came[r.id]
		delete(came, r.id)
		about := slices.DeleteFunc(slices.Clone(got), func(line string) bool { return !isAuditRun(line) })
		got = slices.DeleteFunc(got, isAuditRun)
		n := count(r.lines, got)
		total.add(n)
		if !slices.Equal(got, r.lines) {
			t.Errorf("run %s (%s): the export has %s, and not the lines in their order", r.id, r.name, n)
		}
		if !r.gone.IsZero() {
			deleted++
		}
		want := r.record(previous)
		if want.Complete {
			previous = &want.Violations
		}
		checkRecord(t, want, about)
	}
	for id, lines := range came {
		t.Errorf("the export has %d lines of the run %q, which Gatekeeper has not written: %.300s", len(lines), id, lines[0])
	}
	total.check(t)
	t.Logf("summary: %d runs, %d of them deleted by Gatekeeper meanwhile: lines %s", len(runs), deleted, total)
}

// record is what docket has to say about the run. A finished one without violations
// may have failed: an audit soon after the start of Gatekeeper does not know the
// constraints yet.
func (r run) record(previous *int) auditRun {
	a := auditRun{EventType: "docket.audit.run", ID: r.id, Violations: r.violations(), Previous: previous}
	switch {
	case !r.finished:
		a.Reason = "Abandoned"
	case a.Violations == 0:
		a.Reason = "NoRecords"
	default:
		a.Reason, a.Complete = "StartToEnd", true
	}
	return a
}

// checkRecord compares docket's record about a run with the one it should have made.
func checkRecord(t *testing.T, want auditRun, about []string) {
	t.Helper()
	if len(about) != 1 {
		t.Errorf("run %s: %d records of docket's say what became of it, want 1: %s", want.ID, len(about), about)
		return
	}
	var got auditRun
	decode(t, about[0], &got)
	if !reflect.DeepEqual(got, want) {
		text, _ := json.Marshal(want)
		t.Errorf("run %s: docket says %s, want %s", want.ID, about[0], text)
	}
}
