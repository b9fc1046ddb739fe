package retrycmd

import (
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/exporter"
)

func TestWrite(t *testing.T) {
	soon := time.Now().Add(90*time.Minute + 30*time.Second)
	failing := exporter.SinkStatus{Name: "siem", State: exporter.Degraded, Reason: "Transient", LastError: "refused\x1b[31m\nnow", Attempts: 3}
	waiting := failing
	waiting.NextAttempt = &soon
	for _, test := range []struct {
		answer exporter.RetryAnswer
		want   string
	}{
		{exporter.RetryAnswer{Waited: true, Sink: exporter.SinkStatus{Name: "siem", State: exporter.Active}}, "sink siem works again\n"},
		{exporter.RetryAnswer{Sink: exporter.SinkStatus{Name: "siem", State: exporter.Active}}, "sink siem works: nothing to retry\n"},
		{exporter.RetryAnswer{Waited: true, Sink: waiting}, "sink siem Degraded: Transient: refused [31m now; the next attempt is in 1h30m\n"},
		{exporter.RetryAnswer{Sink: failing}, "sink siem Degraded: Transient: refused [31m now; an attempt is under way\n"},
	} {
		var b strings.Builder
		if err := write(&b, test.answer); err != nil || b.String() != test.want {
			t.Errorf("got %q, %v, want %q", b.String(), err, test.want)
		}
	}
}
