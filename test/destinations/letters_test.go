package destinations

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/docket-export/docket/test/dockettest"
)

// letter is what docket deadletter ls says of a record.
type letter struct {
	ID, Reason, Status, Answer string
	Attempts                   int
}

func readLetters(t *testing.T, d *dockettest.Docket) []letter {
	t.Helper()
	var all []letter
	out := d.Run("deadletter", "ls", "-f", d.ConfigFile(), "--sink", sink, "-o", "json")
	if err := json.Unmarshal(out, &all); err != nil {
		t.Fatalf("docket deadletter ls: %v in %s", err, out)
	}
	return all
}

// asideOf returns nil when of n records so many are set aside, the others are
// delivered, and the sink works.
func asideOf(n, aside int) func(dockettest.Status) error {
	return func(s dockettest.Status) error {
		if l := s.Ledger.Sinks[sink]; l.Delivered != uint64(n-aside) || l.DeadLettered != uint64(aside) {
			return fmt.Errorf("the sink is %+v, its books %+v; want %d delivered and %d set aside", s.Sink(sink), l, n-aside, aside)
		}
		return active(s)
	}
}
