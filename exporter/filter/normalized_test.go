package filter_test

import (
	"strings"
	"testing"

	"github.com/docket-export/docket/exporter/filter"
)

// One expression means the same for the records of every engine.
func TestNormalized(t *testing.T) {
	const (
		export     = `{"id":"u-1","eventType":"violation_admission","kind":"K8sTeam","name":"require-team","enforcementAction":"deny","resourceKind":"Pod","resourceNamespace":"shop","timestamp":"2026-01-05T10:04:07Z"}`
		log        = `{"ts":1767607447.5,"msg":"denied admission: no team","process":"admission","event_type":"violation","constraint_action":"warn","resource_namespace":"shop"}`
		opa        = `{"decision_id":"d-1","path":"authz/allow","input":{"user":"alice"},"result":false}`
		kubernetes = `{"auditID":"a-1","stage":"ResponseComplete","verb":"create","objectRef":{"namespace":"shop"},"responseStatus":{"code":201},"annotations":{"failed-open.validating.webhook.admission.k8s.io/round_0_index_1":"v"}}`
		unknown    = `{"normalized":{"decision":"deny"}}`
	)
	tests := map[string]struct {
		when, record string
		want         bool
	}{
		"export":                {`normalized.decision == "deny" && normalized.resource.namespace == "shop"`, export, true},
		"log":                   {`normalized.decision == "deny" || normalized.message.startsWith("denied")`, log, false},
		"opa":                   {`normalized.decision in ["deny", "warn"] && normalized.user == "alice"`, opa, true},
		"kubernetes":            {`normalized.failedOpen && normalized.operation == "CREATE"`, kubernetes, true},
		"not failed open":       {`normalized.failedOpen`, export, false},
		"time":                  {`normalized.when > timestamp("2026-01-05T10:00:00Z") && normalized.when.getSeconds() == 7`, export, true},
		"beside the record":     {`record.enforcementAction == normalized.decision`, export, true},
		"in a macro":            {`["shop", "cart"].exists(n, n == normalized.resource.namespace)`, export, true},
		"empty where unknown":   {`normalized.decision == "" && normalized.engine == "" && !normalized.failedOpen`, unknown, true},
		"member of that name":   {`record.normalized.decision == "deny" && normalized.decision != "deny"`, unknown, true},
		"other side of no time": {`normalized.when > timestamp("2026-01-05T10:00:00Z") || normalized.engine == "opa"`, opa, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := mustCompile(t, tt.when).Takes([]byte(tt.record))
			if err != nil || got != tt.want {
				t.Errorf("%s of %s: got %t, %v, want %t", tt.when, tt.record, got, err, tt.want)
			}
		})
	}
}

// A time that the record does not tell is like a field that it does not have.
func TestNormalizedTimeMissing(t *testing.T) {
	took, err := mustCompile(t, `normalized.when < timestamp("2026-01-05T10:00:00Z")`).Takes([]byte(`{"decision_id":"d-1"}`))
	if !took || err == nil || !strings.Contains(err.Error(), "normalized.when") {
		t.Errorf("got %t, %v, want a record that is delivered, and an error about normalized.when", took, err)
	}
}

// A mistake in a normalized field is found before the first record comes.
func TestNormalizedCheck(t *testing.T) {
	for name, tt := range map[string]struct{ when, want string }{
		"misspelt":         {`normalized.resource.nam == "a"`, "(did you mean 'normalized.resource.name'?)"},
		"the whole":        {`normalized == record`, "fields of normalized are when, engine, process"},
		"part":             {`normalized.resource == record`, "1:11: undeclared reference to 'normalized.resource'"},
		"other type":       {`normalized.decision == 1`, "found no matching overload"},
		"time as text":     {`normalized.when == "2026-01-05"`, "found no matching overload"},
		"all of the names": {`normalized.when == normalized.when && normalized.failedOpen && normalized.engine + normalized.policy.group + normalized.resource.subresource != ""`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := filter.Check(tt.when)
			if tt.want == "" {
				if err != nil {
					t.Errorf("got %v, want none", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got  %v\nwant one with %s", err, tt.want)
			}
		})
	}
}
