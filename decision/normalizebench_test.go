package decision_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/docket-export/docket/decision"
)

// BenchmarkNormalize measures one record of each kind, beside what it takes to decode
// it with encoding/json.
func BenchmarkNormalize(b *testing.B) {
	all := sampleRecords(b)
	for _, kind := range []struct{ name, sample, has string }{
		{"gatekeeper admission", "gatekeeper-3.24/admission-20261121T080716.213551869Z-8ccf7d380018b3ee.log", `"warn"`},
		{"gatekeeper audit", "gatekeeper/disk-export-audit-channel-2026-11-21T07_38_01Z.log", `"deny"`},
		{"gatekeeper log", "gatekeeper/webhook-log-denies.jsonl", `"deny"`},
		{"opa", "opa/000.body", `"authz/allow"`},
		{"opa admission", "made/reviews", `"system/main"`},
		{"kubernetes", "kube-audit/000.body", `"create"`},
		{"kubernetes policy", "made/kubernetes", `validation_failure`},
		{"docket", "made/docket", `"schemaVersion"`},
		{"docket opened", "made/docket", decision.AuditOpened},
		{"unknown", "gatekeeper/admission/deny-request.json", ""},
	} {
		var record []byte
		for _, r := range all[kind.sample] {
			if record == nil && bytes.Contains(r, []byte(kind.has)) {
				record = r
			}
		}
		b.Run(kind.name, func(b *testing.B) {
			b.SetBytes(int64(len(record)))
			b.ReportAllocs()
			for b.Loop() {
				decision.Normalize(record)
			}
		})
		b.Run(kind.name+" decoded", func(b *testing.B) {
			b.SetBytes(int64(len(record)))
			b.ReportAllocs()
			for b.Loop() {
				var v map[string]any
				if err := json.Unmarshal(record, &v); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
