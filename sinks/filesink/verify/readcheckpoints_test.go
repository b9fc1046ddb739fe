package verify

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/docket-export/docket/decision"
	"github.com/docket-export/docket/sinks/filesink/manifest"
)

const copyOf = `{"eventType":"docket.export.checkpoint","sink":"compliance",` +
	`"export":"0100000000000000000000000000000000000000000000000000000000000000","line":"0200000000000000000000000000000000000000000000000000000000000000",` +
	`"lastSeq":18446744073709551614,"queue":"` + queueA + `","time":"2026-01-05T10:04:07Z"`

// A copy is known in every form in which a sink of docket, or what lies behind it,
// writes it.
func TestReadCheckpoints(t *testing.T) {
	raw := copyOf + "}"
	quoted, err := json.Marshal(raw)
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		text string
		want int
	}{
		"raw":           {raw, 1},
		"stamped":       {copyOf + `,"_docket":{"id":"` + queueA + `-7","seq":7,"source":"docket","received":"2026-01-05T10:04:07Z"}}`, 1},
		"CloudEvents":   {`[{"specversion":"1.0","source":"docket/docket","data":` + raw + `},{"data":{}},{"data":` + raw + `}]`, 2},
		"Splunk":        {`{"time":1767607447.123,"fields":{"docket_source":"docket"},"event":` + raw + `}{"event":{}}{"event":` + raw + `}`, 2},
		"Elasticsearch": {`{"index":{}}` + "\n" + raw + "\n" + `{"_source":` + raw + `}`, 2},
		"OTLP":          {`{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"body":{"stringValue":` + string(quoted) + `}}]}]}]}`, 1},
		"Loki":          {`{"streams":[{"values":[["1767607447123000000",` + string(quoted) + `]]}]}`, 1},
		"among others":  {"{\"n\":1}\nnot JSON\n" + raw + "\r\n{\"text\":\"docket.export.checkpoint\"}\n", 1},
		"nothing":       {"", 0},
		// A producer can send whatever it likes: the stamp tells who did.
		"of a producer":              {copyOf + `,"_docket":{"source":"webhook"}}`, 0},
		"in its record":              {`{"x":` + raw + `,"_docket":{"source":"webhook"}}`, 0},
		"in a record":                {`{"x":` + raw + `,"_docket":{"source":"docket"}}`, 0},
		"with a stamp in its record": {`{"_source":{"x":` + copyOf + `,"_docket":{"source":"docket"}},"_docket":{"source":"webhook"}}}`, 0},
		"too deep":                   {strings.Repeat("[", 40) + raw + strings.Repeat("]", 40), 0},
	} {
		list, err := ReadCheckpoints(strings.NewReader(tt.text), "siem.ndjson")
		if err != nil || len(list) != tt.want {
			t.Errorf("%s: got %+v, %v, want %d", name, list, err, tt.want)
			continue
		}
		for _, c := range list {
			from := c.From
			c.From = ""
			want := Checkpoint{Sink: "compliance", Export: manifest.Hash{1}, Line: manifest.Hash{2}, Place: Place{queueA, 18446744073709551614}, Time: when}
			if c != want || !strings.HasPrefix(from, "siem.ndjson, line ") {
				t.Errorf("%s: got %+v from %q, want %+v", name, c, from, want)
			}
		}
	}
}

func TestReadCheckpointsFails(t *testing.T) {
	for name, text := range map[string]string{
		"on several lines": "{\n\"eventType\": \"docket.export.checkpoint\",\n}",
		"cut":              "{}\n" + copyOf,
		"no line":          `{"eventType":"docket.export.checkpoint","sink":"a","lastSeq":1}`,
		"no number":        strings.Replace(copyOf+"}", "18446744073709551614", "1e99", 1),
	} {
		if list, err := ReadCheckpoints(strings.NewReader(text), "siem.ndjson"); err == nil || !strings.Contains(err.Error(), "siem.ndjson, line ") {
			t.Errorf("%s: got %+v, %v, want an error that names the line", name, list, err)
		}
	}
	if _, err := ReadCheckpoints(bytes.NewReader(bytes.Repeat([]byte{'x'}, maxCheckpointLine+1)), "x"); err == nil {
		t.Error("endless line: got no error")
	}
}

// What the sink says is what verify reads.
func TestCheckpointRecord(t *testing.T) {
	record := decision.Checkpoint{
		EventType: decision.ExportCheckpoint, Sink: "compliance", Export: manifest.Hash{1}.String(), Line: manifest.Hash{2}.String(),
		LastSeq: 18446744073709551614, Queue: queueA, Time: when,
	}
	text, err := json.Marshal(record)
	if want := copyOf + "}"; err != nil || string(text) != want {
		t.Errorf("got %s, %v, want %s", text, err, want)
	}
}

func FuzzReadCheckpoints(f *testing.F) {
	f.Add([]byte(copyOf + "}"))
	f.Add(fmt.Appendf(nil, `{"a":[%s}, %q]}`, copyOf, copyOf+"}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		list, err := ReadCheckpoints(bytes.NewReader(text), "x")
		if err == nil && list == nil {
			t.Error("got nothing at all, want a list that may be empty")
		}
		for _, c := range list {
			if c.Seq == 0 || c.Sink == "" || c.Time.IsZero() {
				t.Errorf("got %+v, want a whole checkpoint", c)
			}
		}
	})
}
