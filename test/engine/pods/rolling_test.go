package pods

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// restartEvery is how often all pods are replaced, which takes most of it.
const restartEvery = 20 * time.Second

// TestPods breaks a policy, kills processes and replaces pods while clients ask as fast as they are answered.
func TestPods(t *testing.T) {
	i := install(t)
	t.Run("Broken", i.broken)
	t.Run("Killed", i.killed)
	t.Run("Rolled", i.rolled)
	t.Run("Audited", i.audited)
	t.Run("WithoutRules", i.withoutRules)
}

// rolled replaces all pods again and again. No request fails, and each denial is exported.
func (i *installation) rolled(t *testing.T) {
	l := i.startLoad(t, "roll")
	began, restarts := time.Now(), 0
	next := time.NewTicker(restartEvery)
	defer next.Stop()
	for time.Since(began) < *rolling {
		i.restart()
		restarts++
		if restarts == 1 {
			t.Logf("status.byPod while the pods are replaced:\n%s", i.watchStatus(t, next.C))
			continue
		}
		<-next.C
	}
	i.settle()
	l.flawless(t, i, i.siem.Lines)
	i.Await("each pod to enforce the policies", i.othersEnforced)
	t.Logf("all pods were replaced %d times in %.0f s", restarts, time.Since(began).Seconds())
}

// watchStatus returns what status.byPod of a constraint said, each time that it said something new, until tick.
// There are never more pods than three.
func (i *installation) watchStatus(t *testing.T, tick <-chan time.Time) string {
	t.Helper()
	var said strings.Builder
	last := ""
	for began := time.Now(); ; {
		select {
		case <-tick:
			return said.String()
		default:
		}
		now := i.Kubectl("get", "k8srequiredlabels", "team-required", "-o", byPod)
		if now == last {
			continue
		}
		last = now
		if n := strings.Count(now, "\n    "+deployment+"-"); n > 3 {
			t.Errorf("more pods than three:\n%s", now)
		}
		fmt.Fprintf(&said, "after %.1f s\n%s", time.Since(began).Seconds(), now)
	}
}

// byPod prints the aggregate and then a line for each pod.
const byPod = `jsonpath={"  "}{.status.docket.phase}{" "}{.status.docket.reason}{": "}{.status.docket.enforcing}{" of "}{.status.docket.pods}{" pods enforce it\n"}` +
	`{range .status.byPod[*]}{"    "}{.id}{": "}{.phase}{" "}{.reason}{", observed "}{.observedGeneration}{", enforced "}{.enforcedGeneration}{"\n"}{end}`

// withoutRules does the same with pods that are behind the Service at once and leave without delay. There
// are failures, within a minute on a machine with nothing else to do; otherwise rolled would prove nothing.
func (i *installation) withoutRules(t *testing.T) {
	const careless = `{"spec": {"template": {"spec": {"containers": [
		{"name": "engine", "args": ["--operation", "webhook", "--shutdown-delay", "0s"], "startupProbe": null, "readinessProbe": null}]}}}}`
	i.Kubectl("--namespace", system, "patch", "deployment/"+deployment, "-p", careless)
	l := i.startLoad(t, "careless")
	began := time.Now()
	for {
		i.Kubectl("--namespace", system, "rollout", "status", "deployment/"+deployment, "--timeout=4m")
		if _, _, wrong := l.so(); wrong > 0 {
			break
		}
		if time.Since(began) > 5*time.Minute {
			t.Fatal("no request failed in five minutes")
		}
		i.restart()
	}
	l.stop()
	t.Logf("without readiness and delay %d of %d requests went wrong in %.0f s, such as %.300s",
		len(l.wrong), len(l.wrong)+len(l.denied)+l.passed, time.Since(began).Seconds(), l.wrong[0])
}
