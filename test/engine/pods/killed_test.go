package pods

import (
	"strings"
	"testing"
)

// killed kills a webhook, a docket and the API server under load, each once.
func (i *installation) killed(t *testing.T) {
	t.Run("Docket", func(t *testing.T) {
		l := i.startLoad(t, "docket")
		i.waitAnswers(l, 20)
		i.kill(t, "docket", "run")
		i.waitAnswers(l, 20)
		i.settle()
		i.waitAnswers(l, 20)
		// No request waits for docket or fails with it, and what it has not acknowledged is sent again.
		l.flawless(t, i, i.siem.LinesOnce)
	})
	t.Run("Webhook", func(t *testing.T) {
		l := i.startLoad(t, "webhook")
		i.waitAnswers(l, 20)
		i.kill(t, "docket-webhook", "--operation webhook")
		i.settle()
		_, _, wrong := l.so()
		i.waitAnswers(l, 50)
		if _, _, now := l.so(); now != wrong {
			t.Errorf("%d requests went wrong after the webhook was back", now-wrong)
		}
		l.stop()
		// Requests that it had in its hands, and those that come before the kubelet knows, pass unreviewed: the
		// failurePolicy is Ignore.
		for _, w := range l.wrong {
			if !strings.Contains(w, "to be denied: true, got 201") {
				t.Errorf("not a call that failed: %s", w)
			}
		}
		t.Logf("%d of %d requests passed unreviewed when a webhook was killed", len(l.wrong), len(l.wrong)+len(l.denied)+l.passed)
	})
	t.Run("APIServer", func(t *testing.T) {
		before := i.Kubectl("--namespace", system, "get", "pods", "-o", restarts)
		i.kill(t, "kube-apiserver", "")
		i.Await("the API server", func() error {
			_, err := i.TryKubectl("get", "--raw", "/readyz")
			return err
		})
		l := i.startLoad(t, "apiserver")
		i.waitAnswers(l, 50)
		// What is changed now reaches the pods: their watches are back.
		i.Kubectl("annotate", "k8srequiredlabels", "team-required", "seen=after", "--overwrite")
		i.Kubectl("patch", "shortname", "name-short", "--type=merge", "-p", `{"spec": {"parameters": {"most": 11}}}`)
		i.awaitEnforced("shortname", "name-short")
		l.flawless(t, i, i.siem.Lines)
		if after := i.Kubectl("--namespace", system, "get", "pods", "-o", restarts); after != before {
			t.Errorf("containers were started again: before\n%s\nafter\n%s", before, after)
		}
	})
}

const restarts = `jsonpath={range .items[*]}{.metadata.name}{" "}{.status.containerStatuses[*].restartCount}{" "}{.status.initContainerStatuses[*].restartCount}{"\n"}{end}`

// kill ends one process of that name on the node with SIGKILL, of those whose arguments have text.
func (i *installation) kill(t *testing.T, name, text string) {
	t.Helper()
	const script = `for pid in $(pidof "$0"); do
	if tr '\0' ' ' <"/proc/$pid/cmdline" | grep -q -e "$1"; then kill -KILL "$pid" && exit; fi
done
echo "there is no $0 $1" >&2; exit 1`
	if out, err := i.Node.Inside("sh", "-c", script, name, text).CombinedOutput(); err != nil {
		t.Fatalf("kill %s: %v: %s", name, err, out)
	}
	t.Logf("killed a %s", name)
}
