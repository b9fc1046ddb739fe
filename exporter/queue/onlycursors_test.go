package queue

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/docket-export/docket/exporter/queue/state"
)

// All but the cursors file is gone. What the furthest sink has passed had seqs,
// which are not given out again.
func TestSeqIsNotReusedWhenOnlyTheCursorsAreLeft(t *testing.T) {
	opts := Options{Directory: t.TempDir()}
	q := open(t, opts)
	c := cursorOf(t, q, "a")
	cursorOf(t, q, "behind")
	storeNumbered(t, q, 1, 5, 1)
	drain(t, q, c)
	must(t, c.Ack(4))
	closeQueue(t, q)
	for _, path := range append(segmentFiles(t, opts.Directory), filepath.Join(opts.Directory, state.PositionsFile)) {
		must(t, os.Remove(path))
	}
	q = open(t, opts)
	store(t, q, chunk("next"))
	equal(t, "the next record", drain(t, q, cursorOf(t, q, "a")), []string{"5:next"})
}
