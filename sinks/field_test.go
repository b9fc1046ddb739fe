package sinks

import (
	"strings"
	"testing"

	"github.com/docket-export/docket/decision"
)

// Names of fields and nothing else are taken.
func TestCheckField(t *testing.T) {
	for _, field := range decision.NormalizedFields() {
		if err := CheckField(decision.NormalizedPrefix + field); err != nil {
			t.Errorf("%s: got %v, want nil", field, err)
		}
	}
	for _, path := range []string{"resourceName", "object.metadata-x.name_y", "a b"} {
		if err := CheckField(path); err != nil {
			t.Errorf("%s: got %v, want it taken", path, err)
		}
	}
	for _, path := range []string{"", "a..b", ".a", "b*", "@this", "a|b", `a\.b`, "#", "a\nb"} {
		if CheckField(path) == nil {
			t.Errorf("%q is taken, want it refused", path)
		}
	}
	for _, path := range []string{"normalized.", "normalized.resource", "normalized.nam"} {
		if err := CheckField(path); err == nil || !strings.HasPrefix(err.Error(), "must be a field of the normalized form, such as normalized.resource.namespace") {
			t.Errorf("%s: got %v, want an error that names one", path, err)
		}
	}
}
