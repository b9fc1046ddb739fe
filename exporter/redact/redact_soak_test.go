//go:build soak

package redact_test

import (
	"strings"
	"testing"
	"time"
)

// Records made to be expensive take time in proportion to their length.
func TestCostIsLinear(t *testing.T) {
	const depth = 200_000 // deeper than a record can be
	records := map[string]string{
		"data in data":   strings.Repeat(`{"data":`, depth) + `{"kind":"Secret","data":1}` + strings.Repeat("}", depth),
		"lists in lists": strings.Repeat(`{"items":[{"data":1},`, depth/2) + `{"kind":"Secret","data":1}` + strings.Repeat("]}", depth/2),
		"events":         strings.Repeat(`{"data":1,"requestObject":`, depth) + `{"kind":"Secret","data":1}` + strings.Repeat("}", depth),
		"many items":     `{"kind":"SecretList","items":[` + strings.TrimSuffix(strings.Repeat(`{"data":1},`, 100_000), ",") + `]}`,
		"quoted":         `{"x":"Secret"` + strings.Repeat(`,"`+lastApplied+`":"{\"kind\":\"\\u0053ecret\"}"`, 10_000) + `}`,
	}
	r := newRedactor(t, secrets, remove("/*/*/*/x"))
	for name, record := range records {
		t.Run(name, func(t *testing.T) {
			begin := time.Now()
			if _, err := r.Append(nil, []byte(record), len(record)); err != nil {
				t.Fatal(err)
			}
			if elapsed := time.Since(begin); elapsed > time.Minute { // a quadratic walk takes minutes
				t.Errorf("%d bytes took %s", len(record), elapsed)
			}
		})
	}
}
