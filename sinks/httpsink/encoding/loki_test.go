package encoding

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/docket-export/docket/sinks"
)

func TestLoki(t *testing.T) {
	b := batch(`{"a":"b"}`, `{}`, ` {}`)
	b.Items[1].Source = "opa"
	b.Items[2].Producer, b.Items[2].Late = "pod-a/1", "Replayed"
	wantBody(t, mustNew(t, lokiName, Config{}), b,
		`{"streams":[{"stream":{"service_name":"docket","source":"webhook"},"values":[`+
			`["1767607447123000041","{\"a\":\"b\"}",{"docket_id":"`+queue+`-41"}],`+
			`["1767607447123000043"," {}",{"docket_id":"`+queue+`-43","docket_producer":"pod-a/1","docket_late":"Replayed"}]]},`+
			`{"stream":{"service_name":"docket","source":"opa"},"values":[["1767607447123000042","{}",{"docket_id":"`+queue+`-42"}]]}]}`)

	c := Loki{Labels: map[string]string{"z": "1", "cluster": `a"b`}, QueueLabel: true}
	wantBody(t, mustNew(t, lokiName, Config{Loki: &c}), batch(`{}`),
		`{"streams":[{"stream":{"cluster":"a\"b","z":"1","source":"webhook","queue":"`+queue+`"},"values":[`+
			`["1767607447123000041","{}",{"docket_id":"`+queue+`-41"}]]}]}`)
}

// Loki drops a line that has the time and text of another: records that came
// together and say the same must not look the same, and a redelivery must.
func TestLokiTimes(t *testing.T) {
	timesOf := func(b sinks.Batch) []string {
		var push struct {
			Streams []struct{ Values [][]json.RawMessage }
		}
		if err := json.Unmarshal([]byte(body(t, mustNew(t, lokiName, Config{}), b)), &push); err != nil {
			t.Fatal(err)
		}
		var times []string
		for _, v := range push.Streams[0].Values {
			times = append(times, string(v[0]))
		}
		return times
	}
	b := batch(slices.Repeat([]string{`{"same":true}`}, 5000)...)
	times := timesOf(b)
	if !slices.IsSorted(times) {
		t.Error("the times do not rise")
	}
	if n := len(slices.Compact(slices.Clone(times))); n != 5000 {
		t.Errorf("got %d times for 5000 records of one text, want one each", n)
	}
	half := b
	half.Items = b.Items[2500:]
	if again := timesOf(half); !slices.Equal(again, times[2500:]) {
		t.Error("a redelivery in another batch has other times")
	}
}

func TestLokiStatus(t *testing.T) {
	e := mustNew(t, lokiName, Config{})
	for name, test := range map[string]struct {
		status int
		answer string
		kind   sinks.Kind
		ok     bool
		hint   string
	}{
		"too old":        {400, "entry for stream '{source=\"webhook\"}' has timestamp too old: 2026-01-05T10:04:07Z, oldest acceptable timestamp is: 2026-02-05T10:04:07Z", 0, false, ""},
		"too far behind": {400, "entry with timestamp 2026-01-05 10:04:07 +0000 UTC ignored, reason: 'entry too far behind, entry timestamp is: 2026-01-05T10:04:07Z, oldest acceptable timestamp is: 2026-01-05T11:04:07Z',\nuser 'fake', total ignored: 1 out of 2 for stream: {source=\"webhook\"}", 0, false, ""},
		"too long":       {400, "Max entry size '262144' bytes exceeded for stream '{source=\"webhook\"}' while adding an entry with length '300000' bytes", 0, false, ""},
		"rate":           {429, "Ingestion rate limit exceeded for user fake (limit: 4194304 bytes/sec)", 0, false, ""},
		"tenant":         {401, "no org id\n", sinks.Misconfigured, true, "X-Scope-OrgID"},
		"credentials":    {401, "unauthorized", 0, false, ""},
		"server":         {500, "at least 2 live replicas required", 0, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			kind, hint, ok := e.Status(test.status, []byte(test.answer))
			if kind != test.kind || ok != test.ok || !strings.Contains(hint, test.hint) || (hint != "") != ok {
				t.Errorf("Status = %s, %q, %t, want %s, %q in it, %t", kind, hint, ok, test.kind, test.hint, test.ok)
			}
		})
	}
}
