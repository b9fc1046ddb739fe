package tailsource

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/docket-export/docket/sources/sourcetest"
	"github.com/docket-export/docket/sources/tailsource/formats"
)

// dockerLine is a piece of a container's log as Docker writes it.
func dockerLine(text string) string {
	log, err := json.Marshal(text) // which escapes <, > and & as Docker does
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf(`{"log":%s,"stream":"stderr","time":"2026-11-29T10:00:00.123456789Z"}`+"\n", log)
}

func utf16le(text string) string {
	units := utf16.Encode([]rune("\ufeff" + text))
	out := make([]byte, 0, 2*len(units))
	for _, u := range units {
		out = binary.LittleEndian.AppendUint16(out, u)
	}
	return string(out)
}

func gzipped(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte(text))
	_ = w.Close()
	return b.String()
}

const (
	violation = `{"level":"info","ts":1.7,"logger":"webhook","msg":"denied admission","event_type":"violation","constraint_name":"x"}`
	opaRecord = `{"decision_id":"1","msg":"Decision Log","time":"2026-01-05T10:04:07Z","type":"openpolicyagent.org/decision_logs"}`
)

// Nothing is passed over without a count, and a file of which nothing is recognised makes the
// source Degraded, with its first bytes.
func TestWhatIsPassedOver(t *testing.T) {
	long := `{"event_type":"violation","pad":"` + strings.Repeat("<y>", 7000) + `"}`
	for name, tt := range map[string]struct {
		format  formats.Format
		text    string
		stored  []string
		refused int // lines that the intake of docket will refuse
		passed  map[string]uint64
		trouble string // a part of it; empty: none
	}{
		"byte order mark": {format: formats.JSON, text: "\ufeff{\"n\":1}\n{\"n\":2}\r\n{\"n\":3}\n", stored: []string{`{"n":1}`, `{"n":2}`, `{"n":3}`}},
		"byte order marks of files that were joined": {format: formats.JSON, text: "\ufeff{\"n\":1}\n\ufeff{\"n\":2}\n", stored: []string{`{"n":1}`, `{"n":2}`}},
		"byte order mark before a frame":             {format: formats.JSON, text: "\ufeff" + dockerLine("{}\n"), stored: []string{"{}"}},
		"denies framed by Docker": {format: formats.GatekeeperDenies,
			text:   dockerLine("starting\n") + dockerLine(violation+"\n") + dockerLine(long[:16<<10]) + dockerLine(long[16<<10:]+"\n"),
			stored: []string{violation, long}, passed: map[string]uint64{"NoObject": 1}},
		"decisions framed by Docker": {format: formats.OPAConsole, text: dockerLine(opaRecord + "\n"), stored: []string{opaRecord}},
		"json framed by Docker":      {format: formats.JSON, text: dockerLine("{\"n\":1}\r\n") + dockerLine("text\n"), stored: []string{`{"n":1}`}, passed: map[string]uint64{"NoObject": 1}},
		"cri, framed by Docker":      {format: formats.CRI, text: dockerLine("{\"n\":1}\n"), stored: []string{`{"n":1}`}},
		"Docker with labels":         {format: formats.JSON, text: `{"log":"{}\n","stream":"stdout","attrs":{"tag":"x"},"time":"2026-11-29T10:00:00.1Z"}` + "\n", stored: []string{"{}"}},
		"Docker with spaces":         {format: formats.JSON, text: `{"log": "{}\n", "stream": "stdout", "time": "2026-11-29T10:00:00.1Z"}` + "\n", stored: []string{"{}"}},
		"records that resemble a frame": {format: formats.JSON, text: "{\"log\":\"x\"}\n{\"log\":\"x\",\"stream\":\"other\",\"time\":\"2026-11-29T10:00:00Z\"}\n" +
			"{\"log\":{},\"stream\":\"stdout\",\"time\":\"2026-11-29T10:00:00Z\"}\n{\"log\":\"\",\"stream\":\"stdout\",\"time\":\"2026-11-29T10:00:00Z\",\"n\":1}\n",
			stored: []string{`{"log":"x"}`, `{"log":"x","stream":"other","time":"2026-11-29T10:00:00Z"}`,
				`{"log":{},"stream":"stdout","time":"2026-11-29T10:00:00Z"}`, `{"log":"","stream":"stdout","time":"2026-11-29T10:00:00Z","n":1}`}},
		"json framed by the CRI": {format: formats.JSON, text: "2026-01-05T10:04:07.1Z stdout P {\"n\"\n2026-01-05T10:04:07.1Z stdout F :1}\n{}\n", stored: []string{`{"n":1}`, "{}"}},
		"cri without framing":    {format: formats.CRI, text: "{}\n{}\n", passed: map[string]uint64{"Unframed": 2}, trouble: `it begins with "{}\n{}\n"`},
		"UTF-16":                 {format: formats.JSON, text: utf16le("{\"n\":1}\n{\"n\":2}\n"), refused: 1, passed: map[string]uint64{"NoObject": 1}, trouble: `it begins with "\xff\xfe{\x00\"\x00n\x00`},
		"gzip":                   {format: formats.GatekeeperDenies, text: gzipped("x"), trouble: `it begins with "\x1f\x8b\b`},
		"syslog":                 {format: formats.OPAConsole, text: "<134>1 2026-01-05T10:04:07Z host opa 7 - - " + opaRecord + "\n", passed: map[string]uint64{"NoObject": 1}, trouble: `it begins with "<134>1 2026`},
		"journald":               {format: formats.GatekeeperDenies, text: "Jan 05 10:04:07 host gatekeeper[7]: " + violation + "\n", passed: map[string]uint64{"NoObject": 1}, trouble: `it begins with "Jan 05`},
		"klog":                   {format: formats.GatekeeperDenies, text: "I0105 10:04:07.123456       1 main.go:1] " + violation + "\n", passed: map[string]uint64{"NoObject": 1}, trouble: `it begins with "I0105`},
		"pretty":                 {format: formats.OPAConsole, text: "{\n  \"type\": \"openpolicyagent.org/decision_logs\"\n}\n", refused: 1, passed: map[string]uint64{"NoObject": 2}, trouble: "recognises nothing"},
		"another engine":         {format: formats.OPAConsole, text: violation + "\n", passed: map[string]uint64{"OtherKind": 1}, trouble: "recognises nothing"},
		"no violation yet": {format: formats.GatekeeperDenies, text: "I0105 x\n{\"level\":\"info\",\"ts\":1.7,\"logger\":\"setup\",\"msg\":\"starting manager\"}\n",
			passed: map[string]uint64{"NoObject": 1, "OtherKind": 1}},
		"no decision yet": {format: formats.OPAConsole, text: `{"level":"info","msg":"Initializing server.","time":"2026-01-05T10:04:07Z"}` + "\n", passed: map[string]uint64{"OtherKind": 1}},
		"blank lines":     {format: formats.JSON, text: "\n \r\n{}\n", stored: []string{"{}"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, tt.format)
			b.write(tt.text)
			b.start()
			if tt.trouble != "" {
				b.awaitTrouble(tt.trouble)
			}
			if tt.refused > 0 { // this intake takes everything
				b.await("the lines to refuse", func() bool { return len(b.stored()) == tt.refused })
			} else {
				b.wantStored(tt.stored)
			}
			b.await("the counts", func() bool { return maps.Equal(b.source.Report().PassedOver, tt.passed) })
			if got := b.source.Report().Trouble; tt.trouble == "" && got != "" {
				t.Errorf("got trouble %q, want none", got)
			}
			b.stop()
			b.start()
			if tt.trouble == "" {
				return
			}
			b.awaitTrouble(tt.trouble) // a restart knows it of a file that was read
			b.rotate(1)
			b.write(map[formats.Format]string{
				formats.GatekeeperDenies: violation, formats.OPAConsole: opaRecord, formats.JSON: "{}", formats.CRI: strings.TrimSuffix(dockerLine("{}\n"), "\n"),
			}[tt.format] + "\n")
			b.await("the end of the trouble", func() bool { return b.source.Report().Trouble == "" })
		})
	}
}

// A sample of a source that redacts would reveal what is to be redacted.
func TestNoSampleOfWhatIsRedacted(t *testing.T) {
	b := newBench(t, formats.JSON)
	b.env.Redaction = &sourcetest.Censor{Text: "secret"}
	b.write("user=secret\n")
	b.start()
	b.awaitTrouble("recognises nothing")
	if text := b.source.Report().Trouble + b.log.String(); strings.Contains(text, "secret") {
		t.Errorf("got %q, want no sample", text)
	}
}
