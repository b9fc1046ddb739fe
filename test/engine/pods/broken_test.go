package pods

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// broken gives the pods a template that does not compile, which nobody has refused. Its last revision is
// enforced on, by pods that start now as well, and its status says so. The other policies do not notice,
// and the template that mends it is enforced.
func (i *installation) broken(t *testing.T) {
	good := strings.ReplaceAll(shortName, "MESSAGE", "the name is too long")
	bad := strings.ReplaceAll(good, "size(variables.anyObject.metadata.name)", "size(variables.anyObject.metadata.name")
	if err := i.put(bad); err == nil || !strings.Contains(err.Error(), `"validation.docket.dev" denied`) {
		t.Errorf("a template that does not compile was not denied: %v", err)
	}
	l := i.startLoad(t, "broken")
	i.unreviewed(true)
	i.Await("the template to be taken", func() error { return i.put(bad) })
	i.unreviewed(false)
	i.Await("each pod to say that the template is broken", i.degraded)
	t.Logf("status.byPod of a template that does not compile:\n%s", i.Kubectl("get", "constrainttemplate", "shortname", "-o", byPod))
	i.asked(t, "the name is too long")
	i.restart()
	i.settle()
	i.Await("new pods to enforce the last revision", i.degraded)
	for range 20 { // every pod is asked
		i.asked(t, "the name is too long")
	}
	i.Await("the new pods to enforce the other policies", i.othersEnforced)
	i.Apply(strings.ReplaceAll(shortName, "MESSAGE", "shorter, please"))
	i.awaitEnforced("constrainttemplate", "shortname")
	i.awaitEnforced("shortname", "name-short")
	for range 20 {
		i.asked(t, "shorter, please")
	}
	l.flawless(t, i, i.siem.Lines)
}

// put applies a manifest that may be refused.
func (i *installation) put(manifest string) error {
	cmd := i.Node.Kubectl(context.Background(), "apply", "-f", "-")
	cmd.Stdin = strings.NewReader(manifest)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// unreviewed has the API server ask nobody about templates.
func (i *installation) unreviewed(yes bool) {
	conditions := "[]"
	if yes {
		conditions = `[{"name": "no-templates", "expression": "request.resource.group != 'templates.gatekeeper.sh'"}]`
	}
	i.Kubectl("patch", "validatingwebhookconfiguration", "docket-webhook", "--type=json",
		"-p", `[{"op": "add", "path": "/webhooks/0/matchConditions", "value": `+conditions+`}]`)
}

// degraded returns nil when each pod says of the template that it enforces an older revision, and why.
func (i *installation) degraded() error {
	s, err := i.state("constrainttemplate", "shortname")
	if err != nil {
		return err
	}
	if d := s.Status.Docket; d.Phase != "Degraded" || d.Reason == "" || d.Pods != all || d.Enforcing != 0 || len(s.Status.ByPod) != all {
		return fmt.Errorf("%+v", s)
	}
	for _, p := range s.Status.ByPod {
		if p.Phase != "Degraded" || p.Reason == "" || len(p.Errors) == 0 ||
			p.ObservedGeneration != s.Metadata.Generation || p.EnforcedGeneration != s.Metadata.Generation-1 {
			return fmt.Errorf("generation %d, pod %+v", s.Metadata.Generation, p)
		}
	}
	return nil
}

// asked makes a Secret whose name is too long, and fails unless it is denied so.
func (i *installation) asked(t *testing.T, want string) {
	t.Helper()
	client := i.Node.Client(t)
	defer client.CloseIdleConnections()
	object := `{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a-very-long-name"}}`
	code, message, err := post(client, "/api/v1/namespaces/"+i.Name+"/secrets?dryRun=All", object)
	if err != nil || code != http.StatusForbidden || !strings.Contains(message, "[name-short] "+want) {
		t.Errorf("got %d %s %v, want a denial that says %q", code, message, err, want)
	}
}
