//go:build soak

package queue

import (
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/internal/testlog"
)

// A disk that fails is in the log when that begins and when it is over, and one that fails by
// turns does not fill the log.
func TestOutageOfADiskInTheLog(t *testing.T) {
	for name, test := range map[string]struct {
		fails func(sync int64) bool
		lines int // about writing, where all of it takes less than a minute
	}{
		"ten syncs": {func(n int64) bool { return n > 5 && n <= 15 }, 2},
		"by turns":  {func(n int64) bool { return n%2 == 0 }, 16},
	} {
		t.Run(name, func(t *testing.T) {
			fsys := &faultFS{FS: disk.OS("")}
			var log testlog.Buffer
			q := open(t, Options{Directory: t.TempDir(), SegmentBytes: 16 << 10, FS: fsys, Log: slog.New(slog.NewTextHandler(&log, nil))})
			var syncs atomic.Int64
			began := time.Now()
			fsys.set(failing("sync", func() bool { return test.fails(syncs.Add(1)) }))
			for n := range 40 {
				storeNumbered(t, q, n+1, n+1, 1)
			}
			fsys.set(nil)
			most := test.lines + 2*int(time.Since(began)/time.Minute) // each minute has a line more of a failure, and of its end
			if got := strings.Count(log.String(), "queue cannot write") + strings.Count(log.String(), "queue writes again"); got < test.lines || got > most {
				t.Errorf("got %d lines about writing, want %d to %d:\n%s", got, test.lines, most, log.String())
			}
			closeQueue(t, q)
		})
	}
}
