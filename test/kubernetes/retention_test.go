package kubernetes

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/docket-export/docket/test/dockettest"
	"github.com/docket-export/docket/test/kubetest"
)

// TestRetention holds docket's queue full while Gatekeeper, which keeps the file of
// one run only, deletes file after file that docket has not been able to read, and
// kills docket meanwhile. It has them all when there is room again.
func TestRetention(t *testing.T) {
	// A run is larger than what fill leaves.
	const violations = 300
	export := t.TempDir()
	var open atomic.Bool
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !open.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(receiver.Close)

	d := dockettest.New(t)
	sources := fmt.Sprintf("- name: filler\n  unix: {path: %q}\n- name: gatekeeper\n  gatekeeper: {path: %q}", d.Socket, export)
	configuration := strings.Replace(config(d, sources), "queue: {", "queue: {maxBytes: 16Mi, ", 1) +
		fmt.Sprintf("- name: slow\n  retry: {initialBackoff: 100ms, maxBackoff: 500ms}\n  http: {url: %s/}\n", receiver.URL)
	d.Start(configuration)
	// Every run appears before the eyes of docket. One that begins while it is down stays
	// until the next is finished, 10 s later: longer than a start takes.
	w := watch(t, export)
	_, g := startAudited(t, violations, kubetest.GatekeeperOptions{AuditSeconds: 10, MaxAuditResults: 1, Export: export})
	fill(t, d)
	w.awaitFinished(t, 4)
	d.Kill()
	d.Start(configuration)
	fill(t, d)
	w.awaitFinished(t, 4)
	deleted := 0 // before docket could read them
	read := auditRuns(t, d)
	for _, r := range w.runs(t) {
		if !r.gone.IsZero() && !slices.ContainsFunc(read, func(a auditRun) bool { return a.ID == r.id }) {
			deleted++
		}
	}
	if deleted < 5 {
		t.Errorf("Gatekeeper deleted %d runs that docket had not read, want 5 or more", deleted)
	}
	open.Store(true)
	w.awaitFinished(t, 1)
	g.Audit.Stop()

	runs := w.runs(t)
	if last := runs[len(runs)-1]; !last.finished {
		runs = runs[:len(runs)-1]
	}
	last := runs[len(runs)-1]
	awaitRun(t, d, 0, "the last run", func(r auditRun) bool { return r.ID == last.id })
	d.Stop()
	var lines []string
	for _, line := range exported(t, d) {
		if !strings.HasPrefix(line, `{"filler":`) {
			lines = append(lines, line)
		}
	}
	checkRuns(t, runs, lines)
	t.Logf("Gatekeeper deleted %d runs before docket had room to read them; docket was killed once meanwhile", deleted)
}

// fill writes records until docket stops reading because its queue has no room for one
// more of them.
func fill(t *testing.T, d *dockettest.Docket) {
	t.Helper()
	conn, err := net.Dial("unix", d.Socket)
	if err != nil {
		t.Fatal(err)
	}
	var writes sync.WaitGroup
	defer writes.Wait()
	defer conn.Close()
	writes.Go(func() {
		line := []byte(`{"filler":"` + strings.Repeat("x", 64<<10) + "\"}\n")
		for {
			if _, err := conn.Write(line); err != nil {
				return // it was closed
			}
		}
	})
	d.Await("a queue without room", awaitTimeout, func(s dockettest.Status) error {
		if s.Queue.State != "Degraded" {
			return fmt.Errorf("the queue is %s", s.Queue.State)
		}
		return nil
	})
}
