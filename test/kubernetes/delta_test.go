package kubernetes

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/docket-export/docket/test/dockettest"
	"github.com/docket-export/docket/test/kubetest"
)

// change is what docket's record about one violation says.
type change struct {
	EventType string
	ID        string // of the run
	Violation violation
}

// violation is what tells the violations of these tests from each other.
type violation struct {
	EventType         string
	Kind, Name        string // of the constraint
	ResourceNamespace string
	ResourceName      string
}

// TestDelta lets violations come and go, with docket killed on the way and audits that
// fail in between. In place of every violation of every run the export has each change
// exactly once, and a failed audit without any resolves nothing.
func TestDelta(t *testing.T) {
	const violations = 30
	c, g := startAudited(t, violations, kubetest.GatekeeperOptions{AuditSeconds: 2, MaxAuditResults: 5})
	w := watch(t, g.Export)
	d := dockettest.New(t)
	configuration := strings.Replace(exportSource(d, g.Export), "gatekeeper: {", "gatekeeper: {delta: true, ", 1)
	d.Start(configuration)
	whole := func(r auditRun) bool { return r.Complete && r.Violations >= violations }
	awaitRun(t, d, 0, "a run with its violations", whole)
	mend(c, "stock-0", "stock-1", "stock-2")
	w.awaitFinished(t, 2)
	d.Kill()
	mend(c, "stock-3", "stock-4")
	if _, err := c.Try(configMaps("shop", "more", 7), "create", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	w.awaitFinished(t, 1)
	d.Start(configuration)
	g.BreakAudits()
	awaitRun(t, d, len(auditRuns(t, d)), "a failed run", func(r auditRun) bool { return r.Reason == "NoRecords" })
	g.MendAudits()
	awaitRun(t, d, len(auditRuns(t, d)), "a run with its violations again", func(r auditRun) bool { return r.Complete && r.Violations == violations-5+7 })
	d.Stop()
	checkChanges(t, w, exported(t, d))
}

// mend gives the ConfigMaps the label that they lack.
func mend(c *kubetest.Cluster, names ...string) {
	c.Kubectl(slices.Concat([]string{"label", "configmaps", "-n", "shop"}, names, []string{"team=a"})...)
}

// checkChanges compares the changes in an export with those that follow from the files
// of the runs that are in it, of which the complete ones alone can resolve.
func checkChanges(t *testing.T, w *witness, lines []string) {
	t.Helper()
	files := make(map[string]run)
	for _, r := range w.runs(t) {
		files[r.id] = r
	}
	var want, got []string
	standing := make(map[violation]bool)
	opened, resolved := 0, 0
	for _, line := range lines {
		var record change
		decode(t, line, &record)
		switch record.EventType {
		case "violation_audited":
			t.Errorf("the export has a violation as it came: %s", line)
		case "docket.audit.opened", "docket.audit.resolved", "docket.audit.snapshot":
			record.Violation.EventType = "" // a resolved one has none
			got = append(got, fmt.Sprint(record))
		case "docket.audit.run":
			var about auditRun
			decode(t, line, &about)
			if about.Reason == "Vanished" { // while docket was killed: it has read nothing of it
				continue
			}
			now := violationsOf(t, files[about.ID])
			for v := range now {
				if !standing[v] {
					want = append(want, fmt.Sprint(change{"docket.audit.opened", about.ID, v}))
					standing[v] = true
					opened++
				}
			}
			for v := range standing {
				if about.Complete && !now[v] {
					want = append(want, fmt.Sprint(change{"docket.audit.resolved", about.ID, v}))
					delete(standing, v)
					resolved++
				}
			}
		}
	}
	n := count(want, got)
	n.check(t)
	// There are more where an audit failed on its way: Gatekeeper ends its run with what
	// was found until then, and nothing tells that from the rest being mended.
	if resolved < 5 || opened < 37 {
		t.Errorf("%d violations were opened and %d resolved, want 37 and 5 at least", opened, resolved)
	}
	t.Logf("summary: changes %s: %d opened, %d resolved, %d stand", n, opened, resolved, len(standing))
}

// violationsOf returns the violations of a run.
func violationsOf(t *testing.T, r run) map[violation]bool {
	t.Helper()
	found := make(map[violation]bool)
	for _, line := range r.lines {
		var v violation
		decode(t, line, &v)
		if v.EventType == "violation_audited" {
			v.EventType = ""
			found[v] = true
		}
	}
	return found
}
