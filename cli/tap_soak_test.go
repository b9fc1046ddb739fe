//go:build soak

package cli

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
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

// Clients that send slowly, more of them than there may be connections, keep no API server
// out and take little memory.
func TestTapSlowClients(t *testing.T) {
	program := releasedDocket(t) // before the directory changes
	s := newTapStage(t, "docket: {address: \"\"}\n")
	s.program = program
	s.start()
	config := &tls.Config{RootCAs: s.ca.Pool, ServerName: "engine.ns.svc"}
	const slow, places = 600, 256
	for n := range slow {
		nc, err := tls.Dial("tcp", s.listen, config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nc.Close() })
		head := "POST / HTTP/1.1\r\nHost: h\r\nX-"
		if n%2 == 0 {
			head = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\nContent-Type: application/json\r\n\r\n{"
		}
		if _, err := io.WriteString(nc, head); err != nil {
			t.Fatal(err)
		}
		if n%50 == 0 {
			if err := s.review(fmt.Sprintf("between-%d", n), 100); err != nil {
				t.Error(err)
			}
		}
	}
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.process.cmd.Process.Pid))
	if others := 50; err != nil || len(open) > 2*places+others { // one to the engine for each
		t.Errorf("got %d open files, %v, want at most %d connections", len(open), err, 2*places)
	}
	if got := s.anonymous(); got > 48<<10 {
		t.Errorf("got %d KiB beside the program's pages, want at most 48 MiB", got)
	}
	t.Logf("%d KiB with %d slow clients", s.anonymous(), slow)
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
