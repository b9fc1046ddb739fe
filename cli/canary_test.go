package cli

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/exporter/deadletter"
)

// canary is what every source of TestCanary redacts, wherever it stands.
const canary = "canary7Zq3Tn8Lw5Rk"

// TestCanary: what a source redacts is nowhere: in no file below the queue's directory or
// of an export, in no log line, in no answer of an endpoint. It is looked for while docket
// runs, after a kill in mid-run, after the next start and after the end.
func TestCanary(t *testing.T) {
	s := newEverySource(t, canaryRules)
	for n, c := range canaryCases {
		for i, text := range c.before {
			c.feed(s, c.source, i, strings.ReplaceAll(text, "CANARY", canary))
		}
		if n == 0 { // siem takes some of it, so that it may refuse the others
			s.waitInside("gk-delta", `"crc32c"`)
		}
	}
	for _, name := range []string{"tail-cri", "tail-denies"} {
		s.waitInside(name, `"carry":[`)
	}
	waitStatus(t, s.admin, func(st exporter.Status) bool { return st.Ledger.Sinks["siem"].DeadLettered >= 4 })
	s.wantNoCanary("while docket runs")
	s.process.kill()
	s.ended()
	s.wantNoCanary("after a kill")

	s.start()
	for _, c := range canaryCases {
		for i, text := range c.after {
			c.feed(s, c.source, len(c.before)+i, strings.ReplaceAll(text, "CANARY", canary))
		}
	}
	eventually(t, "the joined line in the export", func() bool { return strings.Contains(s.exported(), `"joined":"cri"`) })
	s.wantNoCanary("after a restart")
	s.stop()
	s.wantNoCanary("after the end")
	for _, c := range canaryCases {
		received := `docket_records_received_total{source="` + c.source + `"} `
		if !strings.Contains(s.lastMetrics, received) || strings.Contains(s.lastMetrics, received+"0\n") {
			t.Errorf("nothing came from %s: the test shows nothing of it", c.source)
		}
	}
}

// canaryRules are what every source redacts.
const canaryRules = `
  redact:
  - {pointer: /secret, action: Remove}
  - {pointer: /message, action: HMAC-SHA256, keyFile: DIR/KEY}
  - {pointer: /violation/details, action: Remove}
  - {pointer: /details, action: Replace, with: "-"}
  - {pointer: /input, action: Remove}
  - {pointer: /requestObject, action: Remove}
  - {pointer: /constraint_name, action: HMAC-SHA256, keyFile: DIR/KEY}
  - {pointer: /name, action: HMAC-SHA256, keyFile: DIR/KEY}
`

// canaryCase is what one source is sent before a kill and after it.
type canaryCase struct {
	source        string
	feed          func(s *everySource, source string, nth int, text string)
	before, after []string
}

// badLines are refused.
const badLines = `{"secret":"CANARY"
["CANARY"]
"CANARY"
CANARY {"secret":"CANARY"}
{"secret":"CANARY","secret":CANARY}
` // and what is too long, which feedLines adds

const canaryStamp = "2026-01-05T10:04:07.1Z "

func auditRun(id string, violations ...string) string {
	text := fmt.Sprintf(`{"id":%q,"message":"audit is started"}`+"\n", id)
	for _, name := range violations {
		text += fmt.Sprintf(`{"id":%q,"details":{"d":"CANARY"},"eventType":"violation_audited","group":"g","version":"v1","kind":"K","name":"n-CANARY","message":"not CANARY %s","enforcementAction":"deny","resourceName":%q,"resourceLabels":null}`+"\n", id, name, name)
	}
	return text + fmt.Sprintf(`{"id":%q,"message":"audit is completed"}`+"\n", id)
}

var canaryCases = []canaryCase{
	{"gk-delta", (*everySource).feedExport, []string{strings.ReplaceAll(auditRun("2026-01-05T10:04:07Z", strings.Split("abcdefghijklmnop", "")...), "CANARY", "nothing")}, nil},
	{"unix", (*everySource).feedUnix, []string{`{"secret":"CANARY","n":1}` + "\n" + badLines, acknowledged(`{"secret":"CANARY"}`, `{"secret":"CANARY"`), `{"docket":{"version":1,"producer":"CANARY","next":"CANARY"}}` + "\n"}, []string{`{"secret":"CANARY","n":2}` + "\n"}},
	{"opa", (*everySource).feedHTTP, []string{`[{"decision_id":"d1","input":{"secret":"CANARY"}},["CANARY"],"CANARY"]`, `[{"decision_id":"d2","input":{"secret":"CANARY"}},CANARY`}, nil},
	{"audit", (*everySource).feedHTTP, []string{`{"kind":"EventList","apiVersion":"audit.k8s.io/v1","items":[{"auditID":"a1","stage":"ResponseComplete","requestObject":{"s":"CANARY"}},"CANARY"]}`}, nil},
	{"tail-cri", (*everySource).feedLog, []string{canaryStamp + `stdout F {"secret":"CANARY"}` + "\n" + canaryStamp + `stdout P {"joined":"cri","secret":"CANARY` + "\n"}, []string{canaryStamp + "stdout F \"}\n"}},
	{"tail-denies", (*everySource).feedLog, []string{`{"event_type":"audit_started","audit_id":"2026-01-05T10:04:07Z"}` + "\n" +
		`{"event_type":"violation_audited","audit_id":"2026-01-05T10:04:07Z","constraint_kind":"K","constraint_name":"CANARY","secret":"CANARY"}` + "\n" + badLines}, []string{`{"event_type":"audit_finished","audit_id":"2026-01-05T10:04:07Z"}` + "\n"}},
}

// acknowledged is what a producer in acknowledged mode writes.
func acknowledged(lines ...string) string {
	return `{"docket":{"version":1,"producer":"p","next":1}}` + "\n" + strings.Join(lines, "\n") + "\n"
}

// wantNoCanary looks everywhere.
func (s *everySource) wantNoCanary(when string) {
	s.t.Helper()
	for _, dir := range []string{"queue", "export"} {
		err := filepath.WalkDir(s.path(dir), func(name string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return ignoreGone(err)
			}
			text, err := os.ReadFile(name)
			s.lookAt(when, name, text)
			return ignoreGone(err)
		})
		if err != nil {
			s.t.Fatal(err)
		}
	}
	logs := slices.Clone(s.logs)
	if s.process != nil {
		logs = append(logs, s.process.stderr())
	}
	for _, log := range logs {
		s.lookAt(when, "the log", []byte(log))
	}
	for _, answer := range s.answers {
		s.lookAt(when, "an answer", answer)
	}
	if s.process == nil {
		return
	}
	for _, page := range []string{"/status", "/metrics", "/"} {
		s.lookAt(when, page, []byte(s.get(page)))
	}
	var letters []deadletter.Summary
	list, _, _ := docket(s.t, "deadletter", "ls", "-f", s.config, "--sink", "siem", "-o", "json")
	s.lookAt(when, "deadletter ls", []byte(list))
	if err := json.Unmarshal([]byte(list), &letters); err != nil {
		s.t.Fatal(err)
	}
	for _, l := range letters[:min(3, len(letters))] {
		shown, _, _ := docket(s.t, "deadletter", "show", "-f", s.config, "--sink", "siem", l.ID)
		s.lookAt(when, "deadletter show", []byte(shown))
	}
}

// lookAt looks for the canary, also in base64, as lines that are no UTF-8 are kept.
func (s *everySource) lookAt(when, where string, text []byte) {
	s.t.Helper()
	for shift := range 3 {
		encoded := base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat("x", shift) + canary))
		if bytes.Contains(text, []byte(encoded[4:len(encoded)-4])) {
			s.t.Errorf("%s: %s holds the canary, in base64", when, where)
		}
	}
	if at := bytes.Index(text, []byte(canary)); at >= 0 {
		s.t.Errorf("%s: %s holds the canary: %q", when, where, text[max(0, at-60):min(len(text), at+60)])
	}
}
