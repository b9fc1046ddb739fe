package opa

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/docket-export/docket/test/dockettest"
)

// TestConsole follows the log of an OPA that sends its decisions nowhere, and kills
// docket and OPA meanwhile. Every decision in the log is in the export exactly once, in
// the bytes of the log.
func TestConsole(t *testing.T) {
	nobody := listener(t)
	e := startEngine(t, nobody, upload{Buffer: "size", Trigger: "periodic"}, 1)
	d := dockettest.New(t)
	configuration := d.Config(fmt.Sprintf("- name: console\n  tail: {path: %q, format: opaConsole}", e.Log))
	d.Start(configuration)
	l := startLoad(t, e, 100)
	const kills = 3
	for range kills {
		awaitMore(d, 1000)
		d.Kill()
		d.Start(configuration)
	}
	e.Kill()
	e.Restart()
	awaitMore(d, 1000)
	l.stop()
	e.Kill() // its decisions would be waited for that nobody takes

	written := consoleLines(t, e)
	d.Await("all of the log", deliverTimeout, func(s dockettest.Status) error {
		if got := s.Ledger.Sinks["copy"].Delivered; got < uint64(len(written)) {
			return fmt.Errorf("%d decisions are exported, want %d", got, len(written))
		}
		return nil
	})
	d.Stop()
	came := dockettest.Exported(t, d.ExportDirectory())
	if !slices.Equal(came, written) {
		t.Errorf("the export has %d lines, and is not the %d decisions of the log in their order", len(came), len(written))
	}
	seen := make(map[string]bool)
	for _, line := range came {
		seen[line] = true
	}
	lost := 0
	for _, line := range written {
		if !seen[line] {
			lost++
		}
	}
	t.Logf("summary: logged %d, seen %d, duplicates %d, lost %d; docket killed %d times, OPA once", len(written), len(seen), len(came)-len(seen), lost, kills)
}

// consoleLines returns the lines of the engine's log that are decisions.
func consoleLines(t *testing.T, e *engine) []string {
	t.Helper()
	text, err := os.ReadFile(e.Log)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range bytes.Lines(text) {
		if bytes.Contains(line, []byte(decisionType)) {
			lines = append(lines, string(bytes.TrimSuffix(line, []byte("\n"))))
		}
	}
	return lines
}
