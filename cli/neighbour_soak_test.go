//go:build soak

package cli

import (
	"fmt"
	"sync"
	"testing"
)

// A peer that says more names than docket remembers pushes out its own alone: what
// another sends again is known, after a restart too.
func TestNobodyCanPushOutTheNamesOfOthers(t *testing.T) {
	t.Parallel()
	const names = 70000
	n := newNeighbours(t)
	lines := []string{`{"n":1}`, `{"n":2}`, `{"n":3}`, `{"n":4}`}
	n.mustSay(n.unix, "victim", 1, lines...)
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := worker; i < names; i += 8 {
				if answer, err := n.says(n.any, fmt.Sprint("attack-", i), 1, "{}"); err != nil {
					t.Errorf("name %d: %v, %s", i, err, answer)
					return
				}
			}
		})
	}
	wg.Wait()
	n.restart() // which prunes the table, too
	if answer := n.mustSay(n.unix, "victim", 1, lines...); answer != `{"docket":{"version":1,"acked":4}}` {
		t.Errorf("got answer %s, want acked 4", answer)
	}
	n.exports(lines...)
}
