package sinks

import (
	"regexp"
	"strings"
	"testing"

	"github.com/docket-export/docket/decision"
)

// Names of fields and nothing else are taken, by the check and by the pattern.
func TestCheckField(t *testing.T) {
	pattern := regexp.MustCompile("^(" + FieldPattern + ")$")
	for _, field := range decision.NormalizedFields() {
		if err := CheckField(decision.NormalizedPrefix + field); err != nil {
			t.Errorf("%s: got %v, want nil", field, err)
		}
	}
	for _, path := range []string{"resourceName", "object.metadata-x.name_y", "a b"} {
		if err := CheckField(path); err != nil || !pattern.MatchString(path) {
			t.Errorf("%s: got %v, in the pattern %t; want it taken", path, err, pattern.MatchString(path))
		}
	}
	for _, path := range []string{"", "a..b", ".a", "b*", "@this", "a|b", `a\.b`, "#", "a\nb"} {
		if err := CheckField(path); err == nil || pattern.MatchString(path) {
			t.Errorf("%q: got %v, in the pattern %t; want it refused", path, err, pattern.MatchString(path))
		}
	}
	for _, path := range []string{"normalized.", "normalized.resource", "normalized.nam"} {
		if err := CheckField(path); err == nil || !strings.HasPrefix(err.Error(), "must be a field of the normalized form, such as normalized.resource.namespace") {
			t.Errorf("%s: got %v, want an error that names one", path, err)
		}
	}
}
