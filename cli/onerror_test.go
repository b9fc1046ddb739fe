package cli

import (
	"io"
	"strings"
	"testing"

	"github.com/docket-export/docket/exporter"
)

// A record that its filter cannot judge reaches a sink or not, as configured. Either way
// the books balance, and the export that lacks it says why.
func TestOnError(t *testing.T) {
	config, admin := testConfig(t)
	text := strings.Replace(readFile(t, config), "- name: export\n  file: {directory: export}\n", `- name: deliver
  when: record.decision == "deny"
  file: {directory: deliver}
- name: withhold
  when: record.decision == "deny"
  onError: Withhold
  file: {directory: withhold}
`, 1)
	writeFile(t, config, strings.Replace(text, "drainTimeout: 1h", "drainTimeout: 1s", 1))
	p := startProcess(t, "run", "-f", config)
	producer := dialSocket(t)
	io.WriteString(producer, `{"decision":"deny","n":1}`+"\n"+`{"n":2}`+"\n"+`{"decision":"allow","n":3}`+"\n"+`{"decision":"deny","n":4}`+"\n")
	producer.Close()
	status := waitStatus(t, admin, func(s exporter.Status) bool {
		d, w := s.Ledger.Sinks["deliver"], s.Ledger.Sinks["withhold"]
		return s.Ledger.Stored == 4 && d.Pending == 0 && w.Pending == 0
	})
	d, w := status.Ledger.Sinks["deliver"], status.Ledger.Sinks["withhold"]
	if d.Delivered != 3 || d.Filtered != 1 || w.Delivered != 2 || w.Filtered != 2 {
		t.Errorf("got ledger %+v of deliver and %+v of withhold", d, w)
	}
	metrics := get(t, "http://"+admin+"/metrics")
	for _, sink := range []string{"deliver", "withhold"} {
		if want := `docket_filter_errors_total{sink="` + sink + `"} 1`; !strings.Contains(metrics, want) {
			t.Errorf("got no %q", want)
		}
	}
	p.interrupt()
	p.wait()
	if !strings.Contains(p.stderr(), "the record is withheld") || !strings.Contains(p.stderr(), "the record is delivered") {
		t.Errorf("got log %q", p.stderr())
	}
	if got, want := readFile(t, "withhold/decisions-active.ndjson"), `{"decision":"deny","n":1}`+"\n"+`{"decision":"deny","n":4}`+"\n"; got != want {
		t.Errorf("withhold has %q, want %q", got, want)
	}
}
