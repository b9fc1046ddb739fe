package admission

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/docket-export/docket/test/kubetest"
)

// gatekeeperWebhook is the name of the webhook of Gatekeeper that denies and warns.
const gatekeeperWebhook = "validation.gatekeeper.sh"

// constraints deny a ConfigMap without a team, and warn of one without an owner.
const constraints = `apiVersion: constraints.gatekeeper.sh/v1beta1
kind: K8sRequiredLabels
metadata: {name: team-required}
spec:
  match: {kinds: [{apiGroups: [""], kinds: [ConfigMap]}]}
  parameters: {labels: [team]}
---
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: K8sRequiredLabels
metadata: {name: owner-wanted}
spec:
  enforcementAction: warn
  match: {kinds: [{apiGroups: [""], kinds: [ConfigMap]}]}
  parameters: {labels: [owner]}
`

// site is a cluster with a Gatekeeper behind a Service of which a test says what its
// endpoints are.
type site struct {
	*kubetest.Cluster
	gatekeeper *kubetest.Gatekeeper
	service    *service
	client     *http.Client
	log        *auditLog
}

// outcomes are what Gatekeeper makes of each kind of request when the API server asks it
// directly.
var outcomes = map[string]outcome{
	"bare":      {http.StatusForbidden, noTeam, noOwner},
	"teamless":  {http.StatusForbidden, noTeam, ""},
	"ownerless": {http.StatusCreated, "", noOwner},
	"complete":  {http.StatusCreated, "", ""},
}

const (
	noTeam  = `admission webhook "validation.gatekeeper.sh" denied the request: [team-required] you must provide labels: {"team"}`
	noOwner = `[owner-wanted] you must provide labels: {"owner"}`
)

// startSite starts it, with Gatekeeper itself behind the Service, and returns when its
// outcomes are those.
func startSite(t *testing.T) *site {
	t.Helper()
	c := kubetest.Start(t, kubetest.Options{AuditPolicy: auditPolicy})
	s := &site{Cluster: c, client: c.Client(), log: &auditLog{path: c.AuditLog}}
	s.gatekeeper = c.StartGatekeeper(kubetest.GatekeeperOptions{AuditSeconds: 3600, MaxAuditResults: 1, Front: true})
	s.service = startService(t, s.gatekeeper.Service)
	s.service.route(s.engine())
	c.Apply(kubetest.RequiredLabels)
	c.Apply(constraints)
	c.Kubectl("create", "namespace", "control")
	l := &load{cluster: c, client: s.client}
	for i, kind := range kinds {
		// Gatekeeper takes up its constraints by and by.
		await(t, "verdicts of Gatekeeper", func() error {
			a := l.send(t.Context(), request{user: "user-0", namespace: "control", name: fmt.Sprintf("object-%d", i), kind: kind, dryRun: true})
			if a.err != nil || a.outcome != outcomes[kind] {
				return fmt.Errorf("an object that is %s: got %+v, want %+v", kind, a, outcomes[kind])
			}
			return nil
		})
	}
	s.log.next(t)
	return s
}

// engine is Gatekeeper itself as an endpoint.
func (s *site) engine() endpoint {
	return endpoint{s.gatekeeper.Address, s.gatekeeper.Webhook.Ready}
}

// verdicts returns what the webhook has decided since the last call, less what it has
// allowed without a word: the audit log has what it denied and where it failed, and
// answers have the warnings.
func (s *site) verdicts(t *testing.T, answers []answer) tally {
	t.Helper()
	given := make(tally)
	warnings := make(map[string]string) // by the name of the object
	for _, a := range answers {
		warnings[a.name] = a.warnings
		if v := a.verdict(); v.decision == warned {
			given[v]++
		}
	}
	for _, e := range s.log.next(t) {
		if v, ok := e.verdict(gatekeeperWebhook); ok {
			v.warnings = warnings[v.name]
			given[v]++
		}
	}
	return given
}

// checkOutcomes fails unless each answer is what Gatekeeper makes of such a request. It
// returns how many requests were refused, or let pass, because the webhook failed.
func checkOutcomes(t *testing.T, answers []answer) (failures int) {
	t.Helper()
	changed := 0
	for _, a := range answers {
		switch {
		case a.err != nil:
			t.Errorf("the API server gave no answer to %+v: %v", a.request, a.err)
		case a.failed():
			failures++
		case a.outcome != outcomes[a.kind]:
			if changed++; changed <= 5 {
				t.Errorf("the verdict on %+v is %+v, and Gatekeeper's is %+v", a.request, a.outcome, outcomes[a.kind])
			}
		}
	}
	if changed > 0 {
		t.Errorf("%d of %d verdicts are not Gatekeeper's", changed, len(answers))
	}
	return failures
}
