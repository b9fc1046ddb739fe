package statuscmd

import (
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/exporter"
)

// What sources know to be lost is shown only when there is some.
func TestWriteStatusOfSources(t *testing.T) {
	tests := map[string]struct {
		lost uint64
		want string
	}{
		"nothing lost": {0, `
SOURCE      STATE     CONNECTIONS
gatekeeper  Degraded  0
opa         Active    2
gatekeeper: /tmp/violations: permission denied
`},
		"some": {12, `
SOURCE      STATE     CONNECTIONS  LOST
gatekeeper  Degraded  0            12
opa         Active    2            0
gatekeeper: /tmp/violations: permission denied
`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			err := writeStatus(&b, exporter.Status{Sources: []exporter.SourceStatus{
				{Name: "gatekeeper", State: exporter.Degraded, Reason: "/tmp/violations: permission denied", Lost: tt.lost},
				{Name: "opa", State: exporter.Active, Connections: 2},
			}}, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(b.String(), "\n"+tt.want+"\n") {
				t.Errorf("got\n%s\nwant in it\n%s", b.String(), tt.want)
			}
		})
	}
}
