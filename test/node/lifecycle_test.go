package node

import (
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/test/nodetest"
)

// The engine starts when docket has its socket, and docket stops when the engine has ended: what
// the engine sends after its SIGTERM is acknowledged and delivered.
func TestStartAndStop(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	ns, r := n.Namespace(t), n.Receiver(t)
	began := time.Now()
	ns.Apply(pod{engine: "-every=5ms -linger=2s"}.manifest(r))
	ns.AwaitReady("pod/engine")
	t.Logf("ready %.1f s after it was applied", time.Since(began).Seconds())
	engine, docket := ns.KeepLog("engine", "engine"), ns.KeepLog("engine", "docket")
	acked(ns, engine, 100)

	started := strings.Fields(ns.Kubectl("get", "pod", "engine", "-o",
		"jsonpath={.status.initContainerStatuses[0].state.running.startedAt} {.status.containerStatuses[0].state.running.startedAt}"))
	if len(started) != 2 || started[0] > started[1] {
		t.Errorf("docket and engine started at %v, want docket first", started)
	}
	deleted(ns, "engine")
	said := text(t, engine)
	before, after, stopped := strings.Cut(said, "SIGTERM\n")
	uids := nodetest.Acked(said)
	if !stopped || len(nodetest.Acked(after)) == 0 || !strings.HasSuffix(said, "end 0\n") || strings.Contains(said, "not acked") {
		t.Errorf("of %d records %d were acknowledged after SIGTERM; the engine ended with %q", len(uids), len(nodetest.Acked(after)), last(said))
	}
	if strings.Contains(before, "not acked") || strings.Contains(text(t, docket), "level=ERROR") {
		t.Errorf("docket said:\n%s", text(t, docket))
	}
	if missing := r.Missing(uids); len(missing) > 0 {
		t.Errorf("%d of %d acknowledged records are lost: %.200v", len(missing), len(uids), missing)
	}
	t.Logf("%d acknowledged, %d of them after SIGTERM, 0 lost", len(uids), len(nodetest.Acked(after)))
}

func last(s string) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	return lines[len(lines)-1]
}
