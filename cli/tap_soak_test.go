//go:build soak

package cli

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// 64 reviews of 1 MB at a time pass through 24 MB of memory, beside the pages of the
// program.
func TestTapMemory(t *testing.T) {
	program := releasedDocket(t)
	for _, protocol := range []string{"http/1.1", "h2"} {
		t.Run(strings.ReplaceAll(protocol, "/", " "), func(t *testing.T) {
			s := newTapStage(t, "docket: {address: \"unix://DIR/docket.sock\"}\ndecisions: [allow, deny, warn, error]\n")
			s.useDocket("docket.sock")
			startExporter(t)
			s.client.Transport.(*http.Transport).ForceAttemptHTTP2 = protocol == "h2"
			s.program = program
			s.start()
			var wave sync.WaitGroup
			var peak atomic.Int64
			for n := range 3 {
				for i := range 64 {
					wave.Go(func() {
						if err := s.review(fmt.Sprintf("m%d-%d", n, i), 1<<20); err != nil {
							t.Error(err)
						}
						for now := s.anonymous(); ; {
							if was := peak.Load(); now <= was || peak.CompareAndSwap(was, now) {
								return
							}
						}
					})
				}
				wave.Wait()
			}
			t.Logf("%d KiB beside the program's pages", peak.Load())
			if peak.Load() > 24_000_000>>10 {
				t.Errorf("got %d KiB, want at most 24 MB", peak.Load())
			}
		})
	}
}

// anonymous is what tap has in memory beside the pages of files, in KiB.
func (s *tapStage) anonymous() int64 {
	s.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.process.cmd.Process.Pid))
	if err != nil {
		s.t.Error(err)
	}
	_, rest, _ := bytes.Cut(status, []byte("RssAnon:"))
	var kib int64
	if _, err := fmt.Sscan(string(rest), &kib); err != nil {
		s.t.Error(err)
	}
	return kib
}

// Slow clients take little memory.
func TestTapSlowClientsTakeLittleMemory(t *testing.T) {
	program := releasedDocket(t) // before the directory changes
	s := newTapStage(t, "docket: {address: \"\"}\n")
	s.program = program
	s.start()
	const slow = 600
	s.slowClients(slow)
	got := s.anonymous()
	t.Logf("%d KiB with %d slow clients", got, slow)
	if got > 48<<10 {
		t.Errorf("got %d KiB beside the program's pages, want at most 48 MiB", got)
	}
}
