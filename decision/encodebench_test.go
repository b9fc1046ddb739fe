package decision_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/docket-export/docket/decision"
)

// denied is a deny as an admission webhook logs it, a line of about 1 KB.
func denied() decision.Record {
	dryRun := false
	return decision.Record{
		ID:                 "b55fd242-f19c-4289-8690-4f9eff3c54ca",
		Details:            json.RawMessage(`{"missing_labels":["team"]}`),
		EventType:          decision.ViolationAdmission,
		Group:              "constraints.gatekeeper.sh",
		Version:            "v1beta1",
		Kind:               "K8sRequiredLabels",
		Name:               "pods-must-have-team",
		Message:            `you must provide labels: {"team"}`,
		EnforcementAction:  "deny",
		ResourceGroup:      "apps",
		ResourceAPIVersion: "v1",
		ResourceKind:       "Deployment",
		ResourceNamespace:  "shop",
		ResourceName:       "cart",
		ResourceLabels:     map[string]string{"app": "cart", "tier": "backend", "app.kubernetes.io/managed-by": "Helm"},
		Timestamp:          time.Date(2026, 1, 5, 10, 4, 7, 123456789, time.UTC),
		Operation:          "CREATE",
		RequestResource:    "deployments",
		RequestUsername:    "system:serviceaccount:ci:deployer",
		RequestUserGroups:  []string{"system:serviceaccounts", "system:serviceaccounts:ci", "system:authenticated"},
		DryRun:             &dryRun,
		Decision:           decision.Deny,
		Process:            decision.Admission,
		Cluster:            "prod-eu-1",
		Pod:                "gatekeeper-controller-manager-7d9f8b6c5-x2x9q",
		RequestUID:         "b55fd242-f19c-4289-8690-4f9eff3c54ca",
		Template:           "k8srequiredlabels",
		Sequence:           4711,
	}
}

func BenchmarkAppendLine(b *testing.B) {
	r := denied()
	dst := make([]byte, 0, 4<<10)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.AppendLine(dst); err != nil {
			b.Fatal(err)
		}
	}
}

// encodeReference writes the line of r with encoding/json.
func encodeReference(line *bytes.Buffer, r *decision.Record) error {
	stamped := *r
	stamped.SchemaVersion = decision.SchemaVersion
	enc := json.NewEncoder(line)
	enc.SetEscapeHTML(false)
	return enc.Encode(&stamped)
}
