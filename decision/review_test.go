package decision_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/docket-export/docket/decision"
)

// The exchanges that were captured of Gatekeeper.
func TestFromReviewOfSamples(t *testing.T) {
	for name, want := range map[string]struct {
		decision decision.Decision
		message  string
		code     int
		warnings int
	}{
		"allow":  {decision.Allow, "", 200, 0},
		"deny":   {decision.Deny, "[pods-must-have-owner] you must provide labels: {\"owner\"}\n[no-host-network] hostNetwork is not allowed for pod hand-1", 403, 2},
		"warn":   {decision.Warn, "", 299, 1},
		"delete": {decision.Deny, "[pods-must-have-owner] you must provide labels: {\"owner\"}\n[no-host-network] expression '!has(object.spec.hostNetwork) || object.spec.hostNetwork == false' resulted in error: no such key: spec", 403, 1},
	} {
		t.Run(name, func(t *testing.T) {
			request := readSample(t, samplesDir+"/gatekeeper/admission/"+name+"-request.json")
			response := readSample(t, samplesDir+"/gatekeeper/admission/"+name+"-response.json")
			r, err := decision.FromReview(request, response)
			if err != nil {
				t.Fatal(err)
			}
			if r.Decision != want.decision || r.Message != want.message || r.Code != want.code || len(r.Warnings) != want.warnings {
				t.Errorf("got %s %d %q with %d warnings, want %+v", r.Decision, r.Code, r.Message, len(r.Warnings), want)
			}
			if !strings.HasPrefix(r.RequestUID, "705ab4f5-6393-11e8-b7cc-4201") || r.ID != r.RequestUID || r.RequestUsername != "alice@example.test" || r.ResourceKind != "Pod" {
				t.Errorf("got %+v, want who asked for what", r)
			}
			line, err := r.AppendLine(nil)
			if err != nil || !json.Valid(line) {
				t.Errorf("got line %s, %v", line, err)
			}
		})
	}
}
