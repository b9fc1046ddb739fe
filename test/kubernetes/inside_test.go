package kubernetes

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docket-export/docket/decision"
	"github.com/docket-export/docket/test/dockettest"
	"github.com/docket-export/docket/test/kubetest"
)

// TestInside runs a Gatekeeper that has docket's client in it, as the page
// docs/upstream-gatekeeper.md proposes. At first it knows of no docket: violations of
// audits go to the disk export, which keeps those of three audits, and denials to the
// log. Then both are streamed to a docket, which is killed every second; and at last
// docket stands still while Gatekeeper is stopped in order, and goes on before it ends.
// What Gatekeeper has found and denied since is in docket's export exactly once.
func TestInside(t *testing.T) {
	const violations = 300 // found by each audit
	d := dockettest.New(t)
	configuration := config(d, fmt.Sprintf("- name: gatekeeper\n  unix: {path: %q}", d.Socket))
	d.Start(configuration)
	address := "unix://" + d.Socket
	c, g := startAudited(t, violations, kubetest.GatekeeperOptions{AuditSeconds: 1, MaxAuditResults: 3, Inside: true})
	l := &denialLoad{cluster: c, client: c.Client()}

	plain := l.run(t, "plain", 5, func() {})
	plain.checkAnswers(t)
	awaitAudits(t, g, 5, violations)
	runs, logged := 0, 0
	for _, r := range auditedRuns(t, readLog(t, g.Audit.Log)) {
		if r.Reported != nil && *r.Reported == violations {
			runs, logged = runs+1, logged+r.Violations
		}
	}
	t.Logf("summary: without docket: of %d denials %d are in the log; of %d violations in %d audits %d are in the log and %d in the disk export",
		len(plain.denied), loggedDenials(t, g, plain), runs*violations, runs, logged, violationsOnDisk(t, g))

	before := len(auditDurations(t, g))
	c.Apply(strings.ReplaceAll(proposedConnection(t), "unix:///run/docket/docket.sock", address))
	g.Webhook.Stop()
	g.Webhook.Args = append(g.Webhook.Args, "--docket-address", address)
	g.Webhook.Restart()
	c.AwaitDenial("team-required", "create", "configmap", "probe", "-n", "strict")
	awaitConnection(t, c)
	streamed := l.run(t, "streamed", 5, func() {})
	streamed.checkAnswers(t)
	kills := 0
	killed := l.run(t, "killed", 10, func() {
		d.Kill()
		d.Start(configuration)
		kills++
	})
	killed.checkAnswers(t)
	awaitAudits(t, g, 4, violations) // a busy machine has made few until now
	seconds := 0
	stopped := l.run(t, "stopped", 3, func() {
		switch seconds++; seconds {
		case 1:
			d.Freeze() // denials wait in Gatekeeper's memory
		case 2:
			time.AfterFunc(500*time.Millisecond, d.Thaw)
			g.Webhook.Stop()
		}
	})
	g.Audit.Stop()

	awaitDelivered(d, 0)
	d.Stop()
	records := exported(t, d)
	checkDenials(t, records, streamed, killed, stopped)
	runs, logged = checkStreamed(t, g, records, violations)
	t.Logf("summary: with docket inside, killed %d times: of %d denials %d are in the log and all in the export; of %d violations in %d audits %d are in the log and all in the export",
		kills, len(streamed.denied)+len(killed.denied)+len(stopped.denied), loggedDenials(t, g, streamed, killed, stopped), runs*violations, runs, logged)
	took := auditDurations(t, g)
	t.Logf("summary: an audit took %v without docket, %v with", quantile(took[:before], 0.5), quantile(took[before:], 0.5))
	for _, p := range []*denials{plain, streamed, killed} {
		t.Logf("summary: %s: %.0f denials a second, answered within %v (p50), %v (p99)",
			p.name, float64(len(p.denied))/p.lasted.Seconds(), quantile(p.took, 0.5), quantile(p.took, 0.99))
	}
}

// proposedConnection returns the Connection of the page.
func proposedConnection(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/upstream-gatekeeper.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, ok := strings.Cut(string(page), "```yaml\napiVersion: connection.gatekeeper.sh/")
	manifest, _, ended := strings.Cut(block, "```")
	if !ok || !ended {
		t.Fatal("the page has no Connection")
	}
	return "apiVersion: connection.gatekeeper.sh/" + manifest
}

// denialLoad asks for objects that Gatekeeper denies.
type denialLoad struct {
	cluster *kubetest.Cluster
	client  *http.Client
}

// denials are what became of the requests of one phase.
type denials struct {
	name   string
	lasted time.Duration

	mu     sync.Mutex
	asked  map[string]bool // names of all objects; guarded by mu
	denied []string        // those that Gatekeeper has denied; guarded by mu
	took   []time.Duration // for each of these; guarded by mu
}

// denialRate is how many requests a second are sent: more than twice what Gatekeeper's
// log takes of lines that look alike.
const denialRate = 250

// run sends requests for some seconds and calls each after every second.
func (l *denialLoad) run(t *testing.T, name string, seconds int, each func()) *denials {
	t.Helper()
	p := &denials{name: name, asked: make(map[string]bool)}
	objects := make(chan string)
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			for object := range objects {
				began := time.Now()
				isDenied := l.isDenied(t, object)
				p.add(object, isDenied, time.Since(began))
			}
		})
	}
	quit := make(chan struct{})
	clients.Go(func() {
		defer close(objects)
		pace := time.NewTicker(time.Second / denialRate)
		defer pace.Stop()
		for n := 0; ; n++ {
			select {
			case <-pace.C:
			case <-quit:
				return
			}
			objects <- fmt.Sprintf("denied-%s-%d", name, n)
		}
	})
	began := time.Now()
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for range seconds {
		<-second.C
		each()
	}
	close(quit)
	clients.Wait()
	p.lasted = time.Since(began)
	return p
}

func (p *denials) add(object string, isDenied bool, took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked[object] = true
	if isDenied {
		p.denied, p.took = append(p.denied, object), append(p.took, took)
	}
}

// isDenied is whether Gatekeeper denies the object. It is false where the API server does
// not reach it.
func (l *denialLoad) isDenied(t *testing.T, object string) bool {
	body := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"` + object + `"}}`
	resp, err := l.client.Post(l.cluster.Server+"/api/v1/namespaces/strict/configmaps", "application/json", strings.NewReader(body))
	if err != nil {
		t.Errorf("the API server has not answered: %v", err)
		return false
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Errorf("the API server has not answered: %v", err)
	}
	return resp.StatusCode == http.StatusForbidden && bytes.Contains(answer, []byte("[team-required] you must provide labels"))
}

// checkAnswers fails unless every request was denied.
func (p *denials) checkAnswers(t *testing.T) {
	t.Helper()
	if len(p.denied) != len(p.asked) || len(p.denied) < 100 {
		t.Fatalf("%s: %d of %d requests were denied, want all, and 100 or more", p.name, len(p.denied), len(p.asked))
	}
}

// loggedDenials returns how many of the denials are in Gatekeeper's log.
func loggedDenials(t *testing.T, g *kubetest.Gatekeeper, phases ...*denials) int {
	t.Helper()
	n := 0
	for _, line := range readLog(t, g.Webhook.Log) {
		for _, p := range phases {
			if line.isDecision() && p.asked[line.Resource] {
				n++
			}
		}
	}
	return n
}

// auditDurations returns how long each finished audit took, in order.
func auditDurations(t *testing.T, g *kubetest.Gatekeeper) []time.Duration {
	t.Helper()
	var all []time.Duration
	for _, line := range readLog(t, g.Audit.Log) {
		if line.EventType == "audit_finished" {
			took, err := time.ParseDuration(line.Duration)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, took)
		}
	}
	return all
}

// quantile is the one that a share of all does not exceed.
func quantile(all []time.Duration, share float64) time.Duration {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[int(float64(len(sorted)-1)*share)].Round(10 * time.Microsecond)
}

// awaitAudits waits until n audits more have ended that found so many violations.
func awaitAudits(t *testing.T, g *kubetest.Gatekeeper, n, violations int) {
	t.Helper()
	found := func() (runs int) {
		for _, r := range auditedRuns(t, readLog(t, g.Audit.Log)) {
			if r.Reported != nil && *r.Reported == violations {
				runs++
			}
		}
		return runs
	}
	before := found()
	await(t, "audits", func() error {
		if got := found() - before; got < n {
			return fmt.Errorf("%d have found %d violations, want %d", got, violations, n)
		}
		return nil
	})
}

// violationsOnDisk returns how many violations the files of finished audits in the disk
// export have.
func violationsOnDisk(t *testing.T, g *kubetest.Gatekeeper) int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(g.Export, kubetest.AuditChannel, "*.log"))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		n += bytes.Count(text, []byte(`"eventType":"violation_audited"`))
	}
	return n
}

// awaitConnection waits until Gatekeeper says that an audit was exported by the
// Connection as it is now.
func awaitConnection(t *testing.T, c *kubetest.Cluster) {
	t.Helper()
	await(t, "the Connection to be active", func() error {
		var connection struct {
			Metadata struct{ Generation int }
			Status   struct {
				ByPod []struct {
					Active             bool
					ObservedGeneration int
					Errors             []any
				}
			}
		}
		text := c.Kubectl("get", "connection", "audit-connection", "-n", "gatekeeper-system", "-o", "json")
		decode(t, text, &connection)
		pods := connection.Status.ByPod
		if len(pods) != 1 || !pods[0].Active || pods[0].ObservedGeneration != connection.Metadata.Generation || len(pods[0].Errors) > 0 {
			return fmt.Errorf("it is %+v", connection)
		}
		return nil
	})
}

// checkDenials fails unless the export has each denial once, and no denial that was not
// asked for.
func checkDenials(t *testing.T, records []string, phases ...*denials) {
	t.Helper()
	came := make(map[string]int)
	for _, line := range records {
		var r decision.Record
		decode(t, line, &r)
		switch {
		case r.EventType == "docket.loss":
			t.Errorf("a loss is told: %s", line)
		case strings.HasPrefix(r.ResourceName, "denied-"):
			if came[r.ResourceName]++; len(came) == 1 {
				checkDenial(t, r)
			}
		}
	}
	for _, p := range phases {
		lost, again := 0, 0
		for _, name := range p.denied {
			if came[name] == 0 {
				lost++
			}
		}
		for name := range p.asked {
			again += max(0, came[name]-1)
			delete(came, name) // Gatekeeper may have denied what it could not answer any more
		}
		if lost > 0 || again > 0 {
			t.Errorf("%s: of %d denials %d are lost, and %d records came again", p.name, len(p.denied), lost, again)
		}
	}
	if len(came) > 0 {
		t.Errorf("the export has denials of what was not asked for: %v", came)
	}
}

// checkDenial compares the record of a denial with what it should have, less what is
// another for each.
func checkDenial(t *testing.T, r decision.Record) {
	t.Helper()
	if r.ID == "" || r.ID != r.RequestUID || r.Timestamp.IsZero() || r.Sequence == 0 {
		t.Errorf("a denial has the id %q, the request UID %q, the time %v and the number %d", r.ID, r.RequestUID, r.Timestamp, r.Sequence)
	}
	r.ID, r.RequestUID, r.Timestamp, r.Sequence, r.ResourceName = "", "", time.Time{}, 0, ""
	want := `{"details":{"missing_labels":["team"]},"eventType":"violation_admission","group":"constraints.gatekeeper.sh","version":"v1beta1",` +
		`"kind":"K8sRequiredLabels","name":"team-required","message":"you must provide labels: {\"team\"}","enforcementAction":"deny",` +
		`"resourceAPIVersion":"v1","resourceKind":"ConfigMap","resourceNamespace":"strict","operation":"CREATE","requestResource":"configmaps",` +
		`"requestUsername":"admin","requestUserUID":"admin","requestUserGroups":["system:masters","system:authenticated"],"dryRun":false,` +
		`"schemaVersion":1,"decision":"deny","process":"admission","pod":"gatekeeper-controller-manager-0"}`
	if got, err := json.Marshal(r); err != nil || string(got) != want {
		t.Errorf("a denial is recorded as %s, %v\nwant %s", got, err, want)
	}
}

// streamedRun is what the export has of one audit, or of two: the id of an audit is the
// second in which it began.
type streamedRun struct {
	starts, ends int
	violations   map[string]int // by the name of the resource
}

// streamedRuns returns them by id.
func streamedRuns(t *testing.T, records []string) map[string]*streamedRun {
	t.Helper()
	runs := make(map[string]*streamedRun)
	for _, line := range records {
		var r decision.Record
		decode(t, line, &r)
		if r.ID == "" || r.EventType == decision.ViolationAdmission {
			continue
		}
		if runs[r.ID] == nil {
			runs[r.ID] = &streamedRun{violations: make(map[string]int)}
		}
		switch r.Message {
		case "audit is started":
			runs[r.ID].starts++
		case "audit is completed":
			runs[r.ID].ends++
		default:
			runs[r.ID].violations[r.ResourceName]++
		}
	}
	return runs
}

// again returns which violation came more often than so many audits can find it.
func (r *streamedRun) again(audits int) error {
	for name, n := range r.violations {
		if n > audits {
			return fmt.Errorf("begun %d times: the violation of %s came %d times", audits, name, n)
		}
	}
	return nil
}

// short returns what is missing, or there is too much of, where so many audits have begun and ended, and
// found so many violations together.
func (r *streamedRun) short(audits, violations int) error {
	found := 0
	for _, n := range r.violations {
		found += n
	}
	if r.starts != audits || r.ends != audits || found != violations {
		return fmt.Errorf("the export has %d starts, %d ends and %d violations, want %d, %d and %d", r.starts, r.ends, found, audits, audits, violations)
	}
	return nil
}

func TestStreamedRun(t *testing.T) {
	for name, tt := range map[string]struct {
		run    streamedRun
		audits int
		wrong  bool
	}{
		"one":              {streamedRun{1, 1, map[string]int{"a": 1, "b": 1}}, 1, false},
		"two of one id":    {streamedRun{2, 2, map[string]int{"a": 2, "b": 2}}, 2, false},
		"missing":          {streamedRun{1, 1, map[string]int{"a": 1}}, 1, true},
		"twice":            {streamedRun{1, 1, map[string]int{"a": 2, "b": 1}}, 1, true},
		"one for another":  {streamedRun{1, 1, map[string]int{"a": 2}}, 1, true},
		"one of two again": {streamedRun{2, 2, map[string]int{"a": 3, "b": 1}}, 2, true},
		"one of two short": {streamedRun{2, 2, map[string]int{"a": 2, "b": 1}}, 2, true},
		"no start":         {streamedRun{0, 1, map[string]int{"a": 1, "b": 1}}, 1, true},
		"end of one alone": {streamedRun{2, 1, map[string]int{"a": 2, "b": 2}}, 2, true},
	} {
		t.Run(name, func(t *testing.T) {
			if err := errors.Join(tt.run.again(tt.audits), tt.run.short(tt.audits, 2*tt.audits)); (err != nil) != tt.wrong {
				t.Errorf("got %v, want a problem: %t", err, tt.wrong)
			}
		})
	}
}

// checkStreamed fails unless the export has each violation of each audit once, with the
// start and the end of the audit. The first began before there was a Connection, and the
// last need not have ended. It returns how many others there are, and how many of their
// violations are in Gatekeeper's log.
func checkStreamed(t *testing.T, g *kubetest.Gatekeeper, records []string, violations int) (whole, logged int) {
	t.Helper()
	log := readLog(t, g.Audit.Log)
	runs := streamedRuns(t, records)
	finished := auditedRuns(t, log)
	began := make(map[string]int)
	for _, line := range log {
		if line.EventType == "audit_started" {
			began[line.AuditID]++
		}
	}
	ids := slices.Sorted(maps.Keys(runs))
	if len(ids) < 4 {
		t.Fatalf("the export has the audits %q, want 4 or more", ids)
	}
	if runs[ids[0]].starts < began[ids[0]] {
		ids = ids[1:]
	}
	first, last := ids[0], ids[len(ids)-1]
	for id := range finished {
		if id > first && runs[id] == nil {
			t.Errorf("the export has nothing of the audit %s", id)
		}
	}
	for _, id := range ids[:len(ids)-1] {
		whole += began[id]
		logged += finished[id].Violations
		want := began[id] * violations
		if reported := finished[id].Reported; reported != nil { // an audit that fails on its way finds fewer
			want = *reported
		}
		if err := runs[id].short(began[id], want); err != nil {
			t.Errorf("audit %s: %v", id, err)
		}
	}
	for id, r := range runs { // the first and the last among them
		if err := r.again(began[id]); err != nil {
			t.Errorf("audit %s: %v", id, err)
		}
	}
	missing := 0 // of the last audit, which logs a violation before it is published
	for _, line := range log {
		if line.AuditID == last && line.isDecision() && runs[last].violations[line.Resource] == 0 {
			missing++
		}
	}
	if missing > 1 {
		t.Errorf("audit %s: %d violations are in Gatekeeper's log and not in the export", last, missing)
	}
	return whole, logged
}
