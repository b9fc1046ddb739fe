package kubernetes

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/docket-export/docket/test/dockettest"
	"github.com/docket-export/docket/test/kubetest"
)

// logLine is what these tests read of a line in the log of Gatekeeper.
type logLine struct {
	EventType  string `json:"event_type"`
	AuditID    string `json:"audit_id"`
	Resource   string `json:"resource_name"`
	Action     string `json:"constraint_action"`
	Violations string `json:"constraint_violations"`
	Duration   string `json:"duration"` // of an audit that is finished

	text string
}

// readLog returns the lines of a log that are decisions, or say something about an
// audit, in order.
func readLog(t *testing.T, file string) []logLine {
	t.Helper()
	var all []logLine
	for _, text := range wholeLines(t, file) {
		line := logLine{text: text}
		if json.Unmarshal([]byte(text), &line) == nil && line.EventType != "" {
			all = append(all, line)
		}
	}
	return all
}

// isDecision is whether the line is one that docket takes.
func (l logLine) isDecision() bool {
	return l.EventType == "violation" || l.EventType == "violation_audited"
}

// TestLogs follows the logs of Gatekeeper while kubectl is denied one object after the
// other and audits find violations, and kills docket meanwhile. Every decision that is
// in a log is in the export exactly once.
func TestLogs(t *testing.T) {
	const few, many = 20, 300
	c, g := startAudited(t, few, kubetest.GatekeeperOptions{AuditSeconds: 2, MaxAuditResults: 3})
	d := dockettest.New(t)
	configuration := config(d, fmt.Sprintf(`
- name: webhook-log
  tail: {path: %q, format: gatekeeperDenies}
- name: audit-log
  tail: {path: %q, format: gatekeeperDenies}`, g.Webhook.Log, g.Audit.Log))
	d.Start(configuration)

	answers := make(chan string)
	go func() {
		_, err := c.Try(configMaps("strict", "denied", many), "create", "-f", "-")
		answers <- fmt.Sprint(err)
	}()
	const kills = 3
	for range kills {
		before := len(exported(t, d))
		await(t, "decisions to be exported", func() error {
			if len(exported(t, d)) < before+10 {
				return fmt.Errorf("%d are exported, and %d were before", len(exported(t, d)), before)
			}
			return nil
		})
		d.Kill()
		d.Start(configuration)
	}
	denied := strings.Count(<-answers, "[team-required] you must provide labels")
	if denied != many {
		t.Errorf("kubectl was denied %d objects, want %d", denied, many)
	}
	g.Webhook.Stop()
	g.Audit.Stop()

	var written []string
	logged := 0
	for _, line := range slices.Concat(readLog(t, g.Webhook.Log), readLog(t, g.Audit.Log)) {
		if line.isDecision() {
			written = append(written, line.text)
		}
		if strings.HasPrefix(line.Resource, "denied-") {
			logged++
		}
	}
	awaitDelivered(d, len(written))
	d.Stop()
	n := count(written, exported(t, d))
	n.check(t)
	t.Logf("summary: decisions in the logs of Gatekeeper: %s; docket killed %d times", n, kills)
	t.Logf("summary: kubectl was denied %d objects; Gatekeeper logged %d of these denials", denied, logged)
}

// auditedRuns returns, by id, what the log says about the audits that are finished in
// it: how many violations it has, and how many there were by Gatekeeper's own count,
// which it gives where it knows of a constraint.
func auditedRuns(t *testing.T, log []logLine) map[string]auditRun {
	t.Helper()
	runs, finished := make(map[string]auditRun), make(map[string]auditRun)
	for _, line := range log {
		r := runs[line.AuditID]
		switch line.EventType {
		case "violation_audited":
			r.Violations++
		case "constraint_audited":
			n, err := strconv.Atoi(line.Violations)
			if err != nil {
				t.Fatalf("the total of a constraint: %v in %s", err, line.text)
			}
			if r.Reported != nil {
				n += *r.Reported
			}
			r.Reported = &n
		case "audit_finished":
			finished[line.AuditID] = r
		}
		runs[line.AuditID] = r
	}
	return finished
}
