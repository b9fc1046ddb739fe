package kafkasink

import (
	"testing"

	"github.com/docket-export/docket/internal/fakekafka"
	"github.com/docket-export/docket/sinks"
)

// Try has the brokers' verdict and leaves nothing: no record, no other position, and a sink that
// sends on.
func TestExactlyOnceTry(t *testing.T) {
	b := fakekafka.Start(t, 1, 1, testTopic)
	s, o := resumed(t, b)
	b.Refuse(`"poison"`)
	sendFails(t, s, batch(1, `{"a":"poison"}`), sinks.Rejected, "[87]")
	ahead := batch(7, `{"a":7}`)
	ahead.Items[0].Late = sinks.Ahead
	for range 3 {
		if err := s.Try(t.Context(), ahead); err != nil {
			t.Fatalf("a record that the brokers accept: %v", err)
		}
	}
	wantCommitted(t, b)
	refused := batch(8, `{"a":"poison"}`)
	refused.Items[0].Late = sinks.Ahead
	if err := s.Try(t.Context(), refused); sinks.FailureOf(err).Kind != sinks.Rejected {
		t.Errorf("a record that the brokers refuse: got %v", err)
	}
	send(t, s, batch(2, `{"a":2}`))
	wantCommitted(t, b, `{"a":2}`)
	wantNext(t, b, 3)
	send(t, s, batch(7, `{"a":7}`))
	wantCommitted(t, b, `{"a":2}`, `{"a":7}`)
	o.want(t, 3, 5, 0)
}
