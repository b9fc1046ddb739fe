package kubeauditsource

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Parts of events as an API server writes them at level Metadata.
const (
	allowed   = `"authorization.k8s.io/decision":"allow","authorization.k8s.io/reason":"RBAC: allowed by ClusterRoleBinding \"edit\""`
	forbidden = `"authorization.k8s.io/decision":"forbid","authorization.k8s.io/reason":""`
	created   = `{"metadata":{},"code":201}`
)

// eventOf is a request of a pod as far as admission decides on it.
func eventOf(verb, annotations, status string) string {
	return `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"6f0c4c3e-0d5b-4a53-9a39-4d1f0a3bb7c1","stage":"ResponseComplete",` +
		`"requestURI":"/api/v1/namespaces/shop/pods","verb":"` + verb + `","user":{"username":"alice@example.com","groups":["developers"]},"sourceIPs":["10.0.0.9"],` +
		`"objectRef":{"resource":"pods","namespace":"shop","name":"cart-7d9","apiVersion":"v1"},"responseStatus":` + status + `,` +
		`"requestReceivedTimestamp":"2026-01-05T10:04:07.100000Z","stageTimestamp":"2026-01-05T10:04:07.120000Z","annotations":{` + annotations + `}}`
}

// failure is a status as the API server answers it.
func failure(code, reason, message string) string {
	text, _ := json.Marshal(message)
	return `{"metadata":{},"status":"Failure","message":` + string(text) + `,"reason":"` + reason + `","code":` + code + `}`
}

const vapFailure = `"validation.policy.admission.k8s.io/validation_failure":"[{\"message\":\"team label missing\",\"policy\":\"require-team\",\"binding\":\"prod\",\"expressionIndex\":0,\"validationActions\":[\"Warn\",\"Audit\"]}]"`

func TestAdmissionDecisions(t *testing.T) {
	for name, test := range map[string]struct {
		event string
		want  bool
	}{
		// Denied.
		"gatekeeper":          {eventOf("create", allowed, failure("403", "Forbidden", "admission webhook \"validation.gatekeeper.sh\" denied the request: [require-team] you must provide labels: {\"team\"}")), true},
		"webhook, own code":   {eventOf("create", allowed, failure("418", "", "admission webhook \"tea.example.com\" denied the request without explanation")), true},
		"webhook, conflict":   {eventOf("update", allowed, failure("409", "Conflict", "admission webhook \"q.example.com\" denied the request: busy")), true},
		"webhook, dry run":    {eventOf("create", allowed, failure("400", "BadRequest", "admission webhook \"q.example.com\" does not support dry run")), true},
		"policy, invalid":     {eventOf("create", allowed, failure("422", "Invalid", "ValidatingAdmissionPolicy 'require-team' with binding 'prod' denied request: team label missing")), true},
		"policy, 401":         {eventOf("create", allowed, failure("401", "Unauthorized", "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no")), true},
		"policy, wrapped":     {eventOf("patch", allowed, failure("422", "Invalid", "pods \"cart-7d9\" is invalid: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no")), true},
		"pod security":        {eventOf("create", allowed+`,"pod-security.kubernetes.io/enforce-policy":"restricted:latest"`, failure("403", "Forbidden", "pods \"cart-7d9\" is forbidden: violates PodSecurity \"restricted:latest\": allowPrivilegeEscalation != false")), true},
		"quota":               {eventOf("create", allowed, failure("403", "Forbidden", "pods \"cart-7d9\" is forbidden: exceeded quota: small, requested: pods=1, used: pods=2, limited: pods=2")), true},
		"fails closed":        {eventOf("create", allowed, failure("500", "InternalError", "Internal error occurred: failed calling webhook \"validation.gatekeeper.sh\": failed to call webhook: Post \"https://gatekeeper-webhook-service.gatekeeper-system.svc:443/v1/admit?timeout=3s\": context deadline exceeded")), true},
		"quota times out":     {eventOf("create", allowed, failure("500", "InternalError", "Internal error occurred: resource quota evaluation timed out")), true},
		"plugin times out":    {eventOf("create", allowed, failure("408", "Timeout", "admission plugin \"X\" failed to complete validation in 13s")), true},
		"capital letters":     {eventOf("create", allowed, failure("400", "BadRequest", "Denied by the cluster's rules")), true},
		"delete":              {eventOf("delete", allowed, failure("403", "Forbidden", "admission webhook \"validation.gatekeeper.sh\" denied the request: [keep] no")), true},
		"deletecollection":    {eventOf("deletecollection", allowed, failure("403", "Forbidden", "admission webhook \"validation.gatekeeper.sh\" denied the request: [keep] no")), true},
		"exec by websocket":   {strings.Replace(eventOf("get", allowed, failure("403", "Forbidden", "admission webhook \"e.example.com\" denied the request: no exec")), `"apiVersion":"v1"},`, `"apiVersion":"v1","subresource":"exec"},`, 1), true},
		"without annotations": {strings.Replace(eventOf("create", "", failure("403", "Forbidden", "admission webhook \"a.example.com\" denied the request: no")), `,"annotations":{}`, "", 1), true},
		"code alone":          {eventOf("create", allowed, `{"metadata":{},"code":403}`), true},
		"other code alone":    {eventOf("create", allowed, `{"metadata":{},"code":400}`), true},
		"escaped":             {eventOf("create", allowed, `{"metadata":{},"status":"Failure","message":"\u0061dmission webhook \u0022a\u0022","code":409}`), true},
		"panic":               {strings.Replace(eventOf("create", allowed, failure("500", "InternalError", "APIServer panic'd: x")), "ResponseComplete", "Panic", 1), true},

		// Admitted, with something to say.
		"fail open":               {eventOf("create", allowed+`,"failed-open.validating.webhook.admission.k8s.io/round_0_index_0":"validation.gatekeeper.sh"`, created), true},
		"mutation fail open":      {eventOf("create", allowed+`,"failed-open.mutation.webhook.admission.k8s.io/round_1_index_0":"mutation.gatekeeper.sh"`, created), true},
		"image policy":            {eventOf("create", allowed+`,"imagepolicywebhook.image-policy.k8s.io/failed-open":"true"`, created), true},
		"policy audits":           {eventOf("create", allowed+`,`+vapFailure, created), true},
		"policy's annotation":     {eventOf("create", allowed+`,"require-team/owner":"none"`, created), true},
		"webhook's annotation":    {eventOf("create", allowed+`,"validation.gatekeeper.sh/constraint":"require-team"`, created), true},
		"pod security audits":     {eventOf("create", allowed+`,"pod-security.kubernetes.io/audit-violations":"would violate PodSecurity \"baseline:latest\": hostPath volumes"`, created), true},
		"pod security exempts":    {eventOf("create", allowed+`,"pod-security.kubernetes.io/exempt":"namespace"`, created), true},
		"no slash in key":         {eventOf("create", allowed+`,"warned":"yes"`, created), true},
		"truncated":               {eventOf("create", allowed+`,"audit.k8s.io/truncated":"true",`+vapFailure, created), true},
		"annotated reading":       {eventOf("list", allowed+`,"a.example.com/x":"y"`, `{"metadata":{},"code":200}`), true},
		"annotated and forbidden": {eventOf("create", forbidden+`,"a.example.com/x":"y"`, failure("403", "Forbidden", "no")), true},

		// No decision of admission.
		"admitted":          {eventOf("create", allowed, created), false},
		"no annotations":    {strings.Replace(eventOf("create", "", created), `,"annotations":{}`, "", 1), false},
		"null annotations":  {strings.Replace(eventOf("create", "", created), `"annotations":{}`, `"annotations":null`, 1), false},
		"mutated":           {eventOf("create", allowed+`,"mutation.webhook.admission.k8s.io/round_0_index_0":"{\"configuration\":\"c\",\"webhook\":\"w\",\"mutated\":true}","patch.webhook.admission.k8s.io/round_0_index_0":"{}"`, created), false},
		"pod security fine": {eventOf("create", allowed+`,"pod-security.kubernetes.io/enforce-policy":"restricted:latest"`, created), false},
		"slow":              {eventOf("create", allowed+`,"apiserver.latency.k8s.io/total":"612ms","apiserver.latency.k8s.io/etcd":"600ms"`, created), false},
		"token":             {eventOf("create", allowed+`,"authentication.kubernetes.io/issued-credential-id":"JTI=1"`, created), false},
		"deprecated":        {eventOf("create", allowed+`,"k8s.io/deprecated":"true","k8s.io/removed-release":"1.40"`, created), false},
		"RBAC":              {eventOf("create", forbidden, failure("403", "Forbidden", "pods is forbidden: User \"bob\" cannot create resource \"pods\" in API group \"\" in the namespace \"shop\"")), false},
		"not found":         {eventOf("delete", allowed, failure("404", "NotFound", "pods \"cart-7d9\" not found")), false},
		"exists":            {eventOf("create", allowed, failure("409", "AlreadyExists", "pods \"cart-7d9\" already exists")), false},
		"invalid":           {eventOf("create", allowed, failure("422", "Invalid", "Pod \"cart-7d9\" is invalid: spec.containers: Required value")), false},
		"read fails":        {eventOf("list", allowed, failure("500", "InternalError", "Internal error occurred: etcd")), false},
		"read of nothing":   {eventOf("get", allowed, `{"metadata":{},"code":404}`), false},
		"received":          {strings.Replace(strings.Replace(eventOf("create", "", "0"), "ResponseComplete", "RequestReceived", 1), `"responseStatus":0,`, "", 1), false},
	} {
		t.Run(name, func(t *testing.T) {
			if !json.Valid([]byte(test.event)) {
				t.Fatalf("the test's event is no JSON: %s", test.event)
			}
			if got := isDecision([]byte(test.event)); got != test.want {
				t.Errorf("got %v, want %v, for\n%s", got, test.want, test.event)
			}
		})
	}
}

// What is not as an API server writes it is kept: what it says is not known.
func TestAdmissionDecisionsKeepsWhatItCannotRead(t *testing.T) {
	fine := eventOf("create", allowed, created)
	if isDecision([]byte(fine)) {
		t.Fatal("got the unchanged event, want it left out")
	}
	status := `"responseStatus":` + created
	for name, change := range map[string][2]string{
		"annotations a text":      {`"annotations":{` + allowed + `}`, `"annotations":"none"`},
		"annotations a list":      {`"annotations":{` + allowed + `}`, `"annotations":[]`},
		"annotations a number":    {`"annotations":{` + allowed + `}`, `"annotations":0`},
		"annotations false":       {`"annotations":{` + allowed + `}`, `"annotations":false`},
		"an annotation a number":  {`"allow"`, `5`},
		"an annotation an object": {`"allow"`, `{"a":1}`},
		"status a text":           {status, `"responseStatus":"Success"`},
		"status a list":           {status, `"responseStatus":[201]`},
		"status null":             {status, `"responseStatus":null`},
		"status empty":            {status, `"responseStatus":{}`},
		"no status":               {status + ",", ``},
		"code a text":             {`"code":201`, `"code":"201"`},
		"code null":               {`"code":201`, `"code":null`},
		"code true":               {`"code":201`, `"code":true`},
		"message a number":        {`"code":201`, `"code":201,"message":7`},
		"status says failure":     {`"code":201`, `"code":201,"status":"Failure","message":"x webhook"`},
		"a control character":     {`alice`, "al\x01ice"},
		"cut":                     {`"cart-7d9"`, `"cart`},
		"an object around it":     {fine, `[` + fine + `]`},
		"a text":                  {fine, `"denied"`},
		"a number":                {fine, `12`},
		"null":                    {fine, `null`},
		"nothing":                 {fine, ``},
	} {
		t.Run(name, func(t *testing.T) {
			event := strings.Replace(fine, change[0], change[1], 1)
			if event == fine {
				t.Fatalf("the test changes nothing: %q is not in %s", change[0], fine)
			}
			if !isDecision([]byte(event)) {
				t.Errorf("got left out, want kept:\n%s", event)
			}
		})
	}
}

// sampleEvents are the events that a kube-apiserver has sent.
func sampleEvents(t testing.TB) [][]byte {
	t.Helper()
	body, err := os.ReadFile(filepath.Join("..", "..", "testdata", "samples", "kube-audit", "000.body"))
	if err != nil {
		t.Fatal(err)
	}
	var list struct{ Items []json.RawMessage }
	if err := json.Unmarshal(body, &list); err != nil {
		t.Fatal(err)
	}
	events := make([][]byte, len(list.Items))
	for i, e := range list.Items {
		events[i] = e
	}
	return events
}

// The sample is of a cluster without policies: no event of it is a decision.
func TestAdmissionDecisionsOfSample(t *testing.T) {
	for _, e := range sampleEvents(t) {
		if isDecision(e) {
			t.Errorf("got kept, want left out:\n%s", e)
		}
	}
}

func FuzzAdmissionDecisions(f *testing.F) {
	f.Add([]byte(eventOf("create", allowed, created)))
	f.Add([]byte(eventOf("create", forbidden, failure("403", "Forbidden", "no"))))
	f.Fuzz(func(t *testing.T, event []byte) {
		if !isDecision(event) && !json.Valid(event) {
			t.Errorf("got left out, want what is no JSON kept: %q", event)
		}
		appendIdentity(nil, event)
	})
}
