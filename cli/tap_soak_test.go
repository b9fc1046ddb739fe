//go:build soak

package cli

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
)

// 64 reviews of 1 MB at a time pass through 24 MB of memory, beside the pages of the program.
func TestTapMemory(t *testing.T) {
	program := releasedDocket(t)
	s := newTapStage(t, "docket: {address: \"unix://DIR/docket.sock\"}\ndecisions: [allow, deny, warn, error]\n")
	s.useDocket("docket.sock")
	startExporter(t)
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
				for now := ownMemory(s.process.cmd.Process.Pid); ; {
					if was := peak.Load(); now <= was || peak.CompareAndSwap(was, now) {
						return
					}
				}
			})
		}
		wave.Wait()
	}
	if peak.Load() > 24_000_000 {
		t.Errorf("got %d bytes, want at most 24 MB", peak.Load())
	}
}
