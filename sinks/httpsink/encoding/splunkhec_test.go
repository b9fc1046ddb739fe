package encoding

import (
	"fmt"
	"slices"
	"testing"

	"github.com/docket-export/docket/sinks"
)

func TestSplunkHEC(t *testing.T) {
	b := batch(`{"a":1.10}`, ` {"timestamp":"2026-01-05T09:00:00.5+01:00"}`)
	b.Items[1].Producer, b.Items[1].Late = "pod-a/1", "Redriven"
	wantBody(t, mustNew(t, splunkHECName, Config{}), b,
		`{"time":1767607447.123,"sourcetype":"_json","source":"webhook","fields":{"docket_id":"`+queue+`-41","docket_source":"webhook"},"event":{"a":1.10}}`+"\n"+
			`{"time":1767600000.500,"sourcetype":"_json","source":"webhook","fields":{"docket_id":"`+queue+`-42","docket_source":"webhook",`+
			`"docket_producer":"pod-a/1","docket_late":"Redriven"},"event": {"timestamp":"2026-01-05T09:00:00.5+01:00"}}`+"\n")

	c := SplunkHEC{Index: "policy", Host: "cluster-a", Source: "docket", SourceType: "gatekeeper", TimeFields: []string{"no", "at.end"}}
	wantBody(t, mustNew(t, splunkHECName, Config{SplunkHEC: &c}), batch(`{"timestamp":"2026-01-05T09:00:00Z","at":{"end":"2026-01-05T08:00:00Z"}}`),
		`{"time":1767600000.000,"index":"policy","host":"cluster-a","source":"docket","sourcetype":"gatekeeper",`+
			`"fields":{"docket_id":"`+queue+`-41","docket_source":"webhook"},"event":{"timestamp":"2026-01-05T09:00:00Z","at":{"end":"2026-01-05T08:00:00Z"}}}`+"\n")
}

// The codes of Splunk's documentation, each with the status that it comes with.
func TestHECCodes(t *testing.T) {
	const (
		accepted = "accepted"
		left     = "left to the status"
	)
	e := mustNew(t, splunkHECName, Config{})
	for _, test := range []struct {
		code, status int
		text, want   string
	}{
		{0, 200, "Success", accepted},
		{1, 403, "Token disabled", "Misconfigured"},
		{2, 401, "Token is required", "Misconfigured"},
		{3, 401, "Invalid authorization", "Misconfigured"},
		{4, 403, "Invalid token", "Misconfigured"},
		{5, 400, "No data", "Misconfigured"},
		{6, 400, "Invalid data format", "Rejected"},
		{7, 400, "Incorrect index", "Misconfigured"},
		{8, 500, "Internal server error", left},
		{9, 503, "Server is busy", left},
		{10, 400, "Data channel is missing", "Misconfigured"},
		{11, 400, "Invalid data channel", "Misconfigured"},
		{12, 400, "Event field is required", "Rejected"},
		{13, 400, "Event field cannot be blank", "Rejected"},
		{14, 400, "ACK is disabled", "Misconfigured"},
		{15, 400, "Error in handling indexed fields", "Rejected"},
		{16, 400, "Query string authorization is not enabled", "Misconfigured"},
		{18, 503, "HEC is unhealthy, queues are full", left},
		{19, 503, "HEC is unhealthy, ack service unavailable", left},
		{20, 503, "HEC is unhealthy, queues are full, ack service unavailable", left},
		{21, 400, "Invalid token", "Misconfigured"},
		{22, 400, "Token disabled", "Misconfigured"},
		{23, 503, "Server is shutting down", left},
		{24, 200, "HEC queue is approaching its capacity", accepted},
		{25, 200, "HEC ack channel is approaching its capacity", accepted},
		{26, 429, "HEC queue is at capacity", "Throttled"},
		{27, 429, "HEC ack channel is at capacity", "Throttled"},
		{99, 400, "what nobody knows", left},
	} {
		t.Run(fmt.Sprint(test.code, " ", test.text), func(t *testing.T) {
			answer := fmt.Appendf(nil, `{"text":%q,"code":%d}`, test.text, test.code)
			if test.status == 200 {
				if err := e.Judge(200, answer, many(3), sinks.AnswerText); err != nil {
					t.Errorf("Judge = %v, want nil", err)
				}
			}
			kind, hint, ok := e.Status(test.status, answer)
			if test.want == accepted || test.want == left {
				if ok {
					t.Errorf("Status = %s, want none", kind)
				}
				return
			}
			if !ok || kind.String() != test.want {
				t.Errorf("Status = %s, %t, want %s", kind, ok, test.want)
			}
			if (hint != "") != (kind == sinks.Misconfigured) {
				t.Errorf("got the hint %q, want one for what an operator must do", hint)
			}
			// The same code under a status of success, as proxies and imitations send it.
			f := failureOf(t, e.Judge(200, answer, many(3), sinks.AnswerText), kind, test.text, fmt.Sprint("code ", test.code), hint)
			if f.Items != nil {
				t.Errorf("got the items %v, want none", f.Items)
			}
		})
	}
}

func TestHECNamesTheItem(t *testing.T) {
	e := mustNew(t, splunkHECName, Config{})
	for name, test := range map[string]struct {
		answer string
		want   []int
	}{
		"first":    {`{"text":"Invalid data format","code":6,"invalid-event-number":0}`, []int{0}},
		"last":     {`{"text":"Invalid data format","code":6,"invalid-event-number":2}`, []int{2}},
		"beyond":   {`{"text":"Invalid data format","code":6,"invalid-event-number":3}`, nil},
		"negative": {`{"text":"Invalid data format","code":6,"invalid-event-number":-1}`, nil},
		"none":     {`{"text":"Invalid data format","code":6}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			f := failureOf(t, e.Judge(400, []byte(test.answer), many(3), sinks.AnswerText), sinks.Rejected)
			if !slices.Equal(f.Items, test.want) {
				t.Errorf("got the items %v, want %v", f.Items, test.want)
			}
			want := sinks.Answer{Status: "400", Text: "Invalid data format (code 6)"}
			for i := range 3 {
				if got := f.Answer(i); got != want {
					t.Errorf("item %d: got the answer %v, want %v", i, got, want)
				}
			}
		})
	}
}

func TestHECAnswersOfOthers(t *testing.T) {
	e := mustNew(t, splunkHECName, Config{})
	failureOf(t, e.Judge(200, []byte(`{"text":"HEC is healthy","code":17}`), many(1), sinks.AnswerText), sinks.Misconfigured, "/services/collector/event")
	for name, answer := range map[string]string{
		"none": "", "text": "OK", "page": "<html>", "another object": `{"status":"ok"}`, "text for a code": `{"code":"0"}`, "torn": `{"text":"Success","code":`, "code 0 of another": `{"msg":"ok","code":0}`,
	} {
		t.Run(name, func(t *testing.T) {
			failureOf(t, e.Judge(200, []byte(answer), many(1), sinks.AnswerText), sinks.Misconfigured, "/services/collector/event")
			if kind, _, ok := e.Status(400, []byte(answer)); ok {
				t.Errorf("Status = %s, want none", kind)
			}
		})
	}
}

// checkJudge checks what must hold of every verdict, whatever was answered.
func checkJudge(t *testing.T, e Encoding, status int, answer []byte) {
	b := many(3)
	e.Status(status, answer)
	err := e.Judge(status, answer, b, sinks.AnswerText)
	if err == nil {
		return
	}
	f := sinks.FailureOf(err)
	if len(f.Items) > 0 && f.Kind != sinks.Rejected || len(f.Each) > 0 && len(f.Each) != len(f.Items) {
		t.Errorf("got items %v and answers %v of a %s failure", f.Items, f.Each, f.Kind)
	}
	if !slices.IsSorted(f.Items) || len(slices.Compact(slices.Clone(f.Items))) != len(f.Items) || len(f.Items) > 0 && (f.Items[0] < 0 || f.Items[len(f.Items)-1] > 2) {
		t.Errorf("got the items %v, want rising indexes into three items", f.Items)
	}
	for _, said := range append(f.Each, f.Said) {
		if len(said.Text) > sinks.MaxAnswerText || sinks.AnswerText(said.Text) != said.Text {
			t.Errorf("got the answer %q, want a printable line of at most %d bytes", said.Text, sinks.MaxAnswerText)
		}
	}
	if text := err.Error(); len(text) > 3*sinks.MaxAnswerText {
		t.Errorf("got an error of %d bytes: %q", len(text), text)
	}
}
