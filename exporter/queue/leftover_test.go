package queue

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docket-export/docket/exporter/queue/state"
	"github.com/docket-export/docket/internal/disk"
)

// A commit that failed has left a refusal behind at the end of its segment, and
// stands again in the next one: it counts there, and once.
func TestRefusalInAFailedCommitCountsOnce(t *testing.T) {
	fsys := &faultFS{FS: disk.OS("")}
	opts := Options{Directory: t.TempDir(), SegmentBytes: 64 << 10, FS: fsys}
	q := open(t, opts)
	store(t, q, chunk(strings.Repeat("x", 50<<10))) // too full to be cut to what it uses
	prepared(t, q)
	var once sync.Once
	fsys.set(func(op, name string) (err error) {
		if op == "sync" && isSegment(name) {
			once.Do(func() { err = errDisk })
		}
		return err
	})
	store(t, q, &Chunk{Source: "test", Received: time.Now(), Refused: []Tally{{Name: "InvalidJSON", Count: 1}}})
	store(t, q, chunk("second"))
	closeQueue(t, q)
	must(t, os.Remove(filepath.Join(opts.Directory, state.PositionsFile))) // so that the segments are added up
	q = open(t, Options{Directory: opts.Directory, SegmentBytes: opts.SegmentBytes})
	if got := q.Stats().Sources["test"].Refused["InvalidJSON"]; got != 1 {
		t.Errorf("refused lines: got %d, want 1", got)
	}
	if got := q.LastSeq(); got != 2 {
		t.Errorf("last seq: got %d, want 2", got)
	}
}
