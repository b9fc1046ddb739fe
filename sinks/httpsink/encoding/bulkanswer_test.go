package encoding

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/docket-export/docket/sinks"
)

// refusedFor is the result of a record refused with 400.
func refusedFor(errorType, reason string) string {
	return fmt.Sprintf(`{"create":{"status":400,"error":{"type":%q,"reason":%q}}}`, errorType, reason)
}

// What only an operator ends must not set aside record after record; and no
// record may pass for that by what it holds.
func TestBulkRefusals(t *testing.T) {
	const noTimestamp = "data stream timestamp field [@timestamp] is missing"
	e := bulk(t, ElasticsearchBulk{})
	for name, test := range map[string]struct {
		result string
		kind   sinks.Kind
		hint   string
	}{
		"shards of OpenSearch":    {refusedFor("validation_exception", "Validation Failed: 1: this action would add [2] total shards, but this cluster currently has [1000]/[1000] maximum shards open;"), sinks.Misconfigured, "max_shards_per_node"},
		"shards of Elasticsearch": {refusedFor("illegal_argument_exception", "Validation Failed: 1: this action would add [10] shards, but this cluster currently has [2402]/[2000] maximum normal shards open;"), sinks.Misconfigured, "max_shards_per_node"},
		"pipeline":                {refusedFor("illegal_argument_exception", "pipeline with id [decisions] does not exist"), sinks.Misconfigured, "create the ingest pipeline"},
		"alias":                   {refusedFor("illegal_argument_exception", "no write index is defined for alias [decisions]. The write index may be explicitly disabled using is_write_index=false"), sinks.Misconfigured, "is_write_index"},
		"timestamp":               {refusedFor("document_parsing_exception", "[1:7] failed to parse: "+noTimestamp), sinks.Misconfigured, "@timestamp"},
		"timestamp as the cause":  {`{"create":{"status":400,"error":{"type":"mapper_parsing_exception","reason":"failed to parse","caused_by":{"reason":"` + noTimestamp + `"}}}}`, sinks.Misconfigured, "@timestamp"},
		"flooded":                 {`{"create":{"status":429,"error":{"type":"cluster_block_exception","reason":"index [d] blocked by: [TOO_MANY_REQUESTS/12/disk usage exceeded flood-stage watermark, index has read-only-allow-delete block];"}}}`, sinks.Misconfigured, "the disks"},
		"blocked as 400":          {refusedFor("cluster_block_exception", "blocked"), sinks.Misconfigured, "is blocked"},
		"no master":               {`{"create":{"status":503,"error":{"type":"cluster_block_exception","reason":"blocked by: [SERVICE_UNAVAILABLE/2/no master];"}}}`, sinks.Transient, ""},
		"closed":                  {refusedFor("index_closed_exception", "closed"), sinks.Misconfigured, "open the index"},
		"security":                {refusedFor("security_exception", "no"), sinks.Misconfigured, "credentials"},
		"no index":                {refusedFor("index_not_found_exception", "no such index [d]"), sinks.Misconfigured, "create the index"},
		"index name":              {refusedFor("invalid_index_name_exception", "Invalid index name"), sinks.Misconfigured, "elasticsearchBulk.index"},

		"a record that quotes the shards":   {refusedFor("mapper_parsing_exception", "failed to parse field [a]. Preview of field's value: 'Validation Failed: 1: this action would add [2] total shards, but this cluster currently has'"), sinks.Rejected, ""},
		"a record that quotes the time":     {refusedFor("document_parsing_exception", "[1:7] failed to parse field [a]. Preview of field's value: '"+noTimestamp+"'"), sinks.Rejected, ""},
		"a record that quotes the pipeline": {refusedFor("mapper_parsing_exception", "pipeline with id [a] does not exist"), sinks.Rejected, ""},
		"another field is missing":          {refusedFor("illegal_argument_exception", "field [a] is missing"), sinks.Rejected, ""},

		"a text for the error": {`{"create":{"status":400,"error":"MapperParsingException[failed to parse]"}}`, sinks.Rejected, "400 MapperParsingException[failed to parse]"},
	} {
		t.Run(name, func(t *testing.T) {
			failureOf(t, e.Judge(200, answerOf(test.result), many(1)), test.kind, test.hint)
		})
	}
}

// What an answer says of each record counts, and not what it says of all.
func TestBulkWithoutErrors(t *testing.T) {
	e := bulk(t, ElasticsearchBulk{})
	noErrors := func(items ...string) []byte {
		return fmt.Appendf(nil, `{"errors":false,"items":[%s]}`, strings.Join(items, ","))
	}
	if err := e.Judge(200, noErrors(created, conflict), many(2)); err != nil {
		t.Errorf("two records taken: Judge = %v, want nil", err)
	}
	f := failureOf(t, e.Judge(200, noErrors(created, mapping), many(2)), sinks.Rejected, "1 of 2")
	if !slices.Equal(f.Items, []int{1}) {
		t.Errorf("one refused: got the items %v, want [1]", f.Items)
	}
	failureOf(t, e.Judge(200, noErrors(created), many(2)), sinks.Transient, "1 results for 2 records", "filter_path")
	failureOf(t, e.Judge(200, noErrors(mapping), many(2)), sinks.Rejected, "1 results for 2 records")
	failureOf(t, e.Judge(200, []byte(`{"errors":false}`), many(1)), sinks.Transient, "0 results for 1 records")
	failureOf(t, e.Judge(200, noErrors(created, created), many(1)), sinks.Transient, "2 results for 1 records")
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
		if e.Judge(200, answer, many(3)) == nil && (!json.Valid(answer) || strings.Count(string(answer), "{") < 7) {
			t.Errorf("Judge(%q) = nil, want a failure of what has not three results", answer)
		}
	})
}

// BenchmarkBulkAnswer reads what is answered to 500 records that were taken.
func BenchmarkBulkAnswer(b *testing.B) {
	answer := []byte(`{"errors":false,"items":[` + strings.Repeat(created+",", 499) + created + `]}`)
	e, batch := bulk(b, ElasticsearchBulk{}), many(500)
	b.SetBytes(int64(len(answer)))
	b.ReportAllocs()
	for b.Loop() {
		if err := e.Judge(200, answer, batch); err != nil {
			b.Fatal(err)
		}
	}
}
