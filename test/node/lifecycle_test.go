package node

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/docket-export/docket/test/nodetest"
)

// The engine starts when docket has its socket, and docket stops when the engine has ended: what
// the engine sends after its SIGTERM is acknowledged and delivered.
func TestStartAndStop(t *testing.T) {
	t.Parallel()
	s := pod{engine: "-every=5ms -linger=2s"}.start(t)
	started := strings.Fields(s.get("{" + docketStatus + ".state.running.startedAt} {" + engineStatus + ".state.running.startedAt}"))
	if len(started) != 2 || started[0] > started[1] {
		t.Errorf("docket and engine started at %v, want docket first", started)
	}
	s.nothingLost()
	said := s.text(s.engine)
	_, after, stopped := strings.Cut(said, "SIGTERM\n")
	if !stopped || len(nodetest.Acked(after)) == 0 || !strings.HasSuffix(said, "end 0\n") {
		t.Errorf("%d records were acknowledged after SIGTERM; the engine ended with %q, want some, and nothing left", len(nodetest.Acked(after)), last(said))
	}
}

// As an ordinary container docket gets its signal when the engine does, after a pause in which the engine ends.
func TestPlain(t *testing.T) {
	t.Parallel()
	s := pod{engine: "-every=5ms -linger=4s", flags: []string{"--plain"}}.start(t)
	s.nothingLost()
	if said := s.text(s.engine); !strings.HasSuffix(said, "end 0\n") {
		t.Errorf("the engine ended with %q, want nothing left", last(said))
	}
}

// An engine that ignores SIGTERM is killed when the grace period is over. Only then docket is told to
// stop, and it has two seconds: enough for what a sink that works takes.
func TestDeafEngine(t *testing.T) {
	t.Parallel()
	s := pod{engine: "-every=5ms -deaf", change: func(spec parts) { spec["terminationGracePeriodSeconds"] = 3 }}.start(t)
	s.nothingLost()
	if said := s.text(s.docket); !strings.Contains(said, "stopped") {
		t.Errorf("docket did not stop in order: %s", last(said))
	}
}

// A pod on an emptyDir that is deleted while its sink is down loses what is pending. docket says how much, in
// its last line.
func TestLeftBehind(t *testing.T) {
	t.Parallel()
	s := pod{engine: "-every=5ms"}.start(t)
	s.r.Answer(http.StatusServiceUnavailable)
	s.ackedAfter(len(s.acked()))
	s.remove()
	lost := len(s.r.Missing(s.acked()))
	if want := fmt.Sprintf(`"sink":"siem","delivered":%d,"left":%d}`, len(s.acked())-lost, lost); lost == 0 || !strings.HasSuffix(last(s.text(s.docket)), want) {
		t.Errorf("%d of %d acknowledged records are lost, and docket's last line is %s; want some lost, and %s", lost, len(s.acked()), last(s.text(s.docket)), want)
	}
	t.Logf("%d acknowledged, %d lost, and counted", len(s.acked()), lost)
}

// With a grace period below what docket kubernetes sidecar writes docket is killed while it drains. What is lost with the
// emptyDir then, docket has not said.
func TestGraceTooShort(t *testing.T) {
	t.Parallel()
	s := pod{engine: "-every=5ms -linger=2s", change: func(spec parts) { spec["terminationGracePeriodSeconds"] = 3 }}.start(t)
	s.r.Answer(http.StatusServiceUnavailable)
	s.ackedAfter(len(s.acked()))
	s.remove()
	lost := len(s.r.Missing(s.acked()))
	if said := last(s.text(s.docket)); lost == 0 || strings.Contains(said, `"stopped"`) {
		t.Errorf("%d records are lost, and docket's last line is %s; want some, and docket killed", lost, said)
	}
	t.Logf("%d acknowledged, %d lost, not counted", len(s.acked()), lost)
}

// Without a common group an engine of another user gets no line through, although the pod is Ready.
func TestNoGroup(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.Apply(pod{engine: "-every=5ms", change: func(spec parts) { delete(spec, "securityContext") }}.manifest(t, s.Node, s.r))
	s.AwaitReady("pod/engine")
	s.engine = s.KeepLog("engine", "engine")
	s.Await("what the client says", func() error {
		if said := s.text(s.engine); !strings.Contains(said, "permission denied") || len(s.acked()) > 0 {
			return errors.New(said)
		}
		return nil
	})
}
