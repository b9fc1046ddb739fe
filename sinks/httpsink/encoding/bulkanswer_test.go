package encoding

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/docket-export/docket/sinks"
)

// What an answer says of each record counts, and not what it says of all.
func TestBulkWithoutErrors(t *testing.T) {
	e := bulk(t, ElasticsearchBulk{})
	noErrors := func(items ...string) []byte {
		return fmt.Appendf(nil, `{"errors":false,"items":[%s]}`, strings.Join(items, ","))
	}
	if err := e.Judge(200, noErrors(created, conflict), many(2), sinks.AnswerText); err != nil {
		t.Errorf("two records taken: Judge = %v, want nil", err)
	}
	f := failureOf(t, e.Judge(200, noErrors(created, mapping), many(2), sinks.AnswerText), sinks.Rejected, "1 of 2")
	if !slices.Equal(f.Items, []int{1}) {
		t.Errorf("one refused: got the items %v, want [1]", f.Items)
	}
	failureOf(t, e.Judge(200, noErrors(created), many(2), sinks.AnswerText), sinks.Transient, "1 results for 2 records", "filter_path")
	failureOf(t, e.Judge(200, noErrors(mapping), many(2), sinks.AnswerText), sinks.Rejected, "1 results for 2 records")
	failureOf(t, e.Judge(200, []byte(`{"errors":false}`), many(1), sinks.AnswerText), sinks.Transient, "0 results for 1 records")
	failureOf(t, e.Judge(200, noErrors(created, created), many(1), sinks.AnswerText), sinks.Transient, "2 results for 1 records")
}

// An answer of a megabyte may list more results than there are records by far: they are not kept.
func TestBulkResultsAreBounded(t *testing.T) {
	answer := []byte(`{"errors":false,"items":[` + strings.Repeat(`{"a":{}},`, 100_000) + `{"a":{}}]}`)
	read, err := readBulkAnswer(answer, 4)
	if err != nil || len(read.results) != 4 {
		t.Errorf("read %d results and %v, want 4", len(read.results), err)
	}
}

func FuzzBulkAnswer(f *testing.F) {
	for _, results := range [][]string{{created, created, created}, {conflict, mapping, busy}, {blocked}, {created, `{"create":{}}`}} {
		f.Add(answerOf(results...))
	}
	f.Add([]byte(`{"errors":false,"items":[{"cre`))
	f.Add([]byte(`{"errors":true,"items":[{"create":{"status":400,"error":"tex`))
	e := bulk(f, ElasticsearchBulk{})
	f.Fuzz(func(t *testing.T, answer []byte) {
		checkJudge(t, e, 200, answer)
		if e.Judge(200, answer, many(3), sinks.AnswerText) == nil && (!json.Valid(answer) || strings.Count(string(answer), "{") < 7) {
			t.Errorf("Judge(%q) = nil, want a failure of what has not three results", answer)
		}
	})
}
