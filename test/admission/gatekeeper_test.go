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

// zoneRequired denies a ConfigMap of the namespace split without a zone.
const zoneRequired = `apiVersion: constraints.gatekeeper.sh/v1beta1
kind: K8sRequiredLabels
metadata: {name: zone-required}
spec:
  match: {kinds: [{apiGroups: [""], kinds: [ConfigMap]}], namespaces: [split]}
  parameters: {labels: [zone]}
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
	l := &load{cluster: c, client: s.client, namespace: "control"}
	l.awaitConstraints(t)
	s.log.next(t)
	return s
}

// awaitConstraints sends requests until Gatekeeper has taken up its constraints, as it
// does by and by.
func (l *load) awaitConstraints(t *testing.T) {
	t.Helper()
	for _, kind := range kinds {
		r := request{user: "user-0", namespace: l.namespace, kind: kind, dryRun: true}
		await(t, "verdicts of Gatekeeper", func() error {
			r.name = fmt.Sprintf("control-%d", l.sent.Load())
			if a := l.send(t.Context(), r); a.err != nil || a.outcome != outcomes[kind] {
				return fmt.Errorf("got %+v, want %+v", a, outcomes[kind])
			}
			return nil
		})
	}
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

// outcomesOf counts the requests that were refused because the webhook failed, and those
// with another outcome than Gatekeeper's.
func outcomesOf(answers []answer) (failures, others int) {
	for _, a := range answers {
		switch {
		case a.failed():
			failures++
		case a.err != nil || a.outcome != outcomes[a.kind]:
			others++
		}
	}
	return failures, others
}

// checkOutcomes fails unless each answer is what Gatekeeper makes of such a request, or
// says that the webhook has failed. It returns how often that is so.
func checkOutcomes(t *testing.T, answers []answer) (failures int) {
	t.Helper()
	for _, a := range answers {
		if !a.failed() && (a.err != nil || a.outcome != outcomes[a.kind]) {
			t.Errorf("one outcome of %+v is %+v, and Gatekeeper's is %+v", a.request, a, outcomes[a.kind])
			break
		}
	}
	failures, others := outcomesOf(answers)
	if others > 0 {
		t.Errorf("%d of %d outcomes are not Gatekeeper's", others, len(answers))
	}
	return failures
}
