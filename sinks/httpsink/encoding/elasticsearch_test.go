package encoding

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/sinks"
)

func bulk(t testing.TB, c ElasticsearchBulk) Encoding {
	t.Helper()
	return mustNew(t, elasticsearchBulkName, Config{ElasticsearchBulk: &c})
}

func TestElasticsearchBulk(t *testing.T) {
	b := batch(`{"a":1.10}`, " {\r}")
	b.Items[1].Received = time.Date(2026, 1, 6, 0, 30, 0, 0, time.FixedZone("", 3600)) // still the 5th in UTC
	wantBody(t, bulk(t, ElasticsearchBulk{}), b,
		`{"create":{"_id":"`+queue+`-41"}}`+"\n"+`{"a":1.10}`+"\n"+`{"create":{"_id":"`+queue+`-42"}}`+"\n {\r}\n")
	wantBody(t, bulk(t, ElasticsearchBulk{Index: "decisions", Op: BulkIndex}), b,
		`{"index":{"_index":"decisions","_id":"`+queue+`-41"}}`+"\n"+`{"a":1.10}`+"\n"+`{"index":{"_index":"decisions","_id":"`+queue+`-42"}}`+"\n {\r}\n")
	wantBody(t, bulk(t, ElasticsearchBulk{Index: "d-{yyyy.MM.dd}-{HH}x"}), b,
		`{"create":{"_index":"d-2026.01.05-10x","_id":"`+queue+`-41"}}`+"\n"+`{"a":1.10}`+"\n"+`{"create":{"_index":"d-2026.01.05-23x","_id":"`+queue+`-42"}}`+"\n {\r}\n")
}

func TestBulkDepth(t *testing.T) {
	nested := func(n int) string { return strings.Repeat(`{"a":`, n-1) + "[]" + strings.Repeat("}", n-1) }
	e := bulk(t, ElasticsearchBulk{})
	for name, record := range map[string]string{
		"at the limit":                   nested(1000),
		"at the limit, with more beside": `{"z":[{},[]],"a":` + nested(999) + `}`,
		"many side by side":              `{"a":[` + strings.Repeat(`{"b":[]},`, 2000) + `{}]}`,
		"brackets in text":               `{"a":"` + strings.Repeat(`\"{[\\`, 2000) + `"}`,
	} {
		if _, err := e.Append(nil, batch(record)); err != nil {
			t.Errorf("%s: Append = %v, want nil", name, err)
		}
	}
	dst, err := e.Append([]byte("before"), batch(`{}`, nested(1001), `{}`, " "+nested(9999)))
	f := failureOf(t, err, sinks.Rejected, "1000 levels")
	if string(dst) != "before" || !slices.Equal(f.Items, []int{1, 3}) {
		t.Errorf("Append = %q with the items %v, want nothing appended, and items 1 and 3", dst, f.Items)
	}
	if got := f.Answer(3).Text; !strings.HasPrefix(got, "not sent: ") {
		t.Errorf("got the answer %q for item 3, want that it was not sent", got)
	}
}

func TestIndexName(t *testing.T) {
	at := time.Date(2026, 1, 5, 23, 4, 7, 0, time.UTC)
	for name, want := range map[string]string{
		"decisions":              "decisions",
		"decisions-{yyyy}":       "decisions-2026",
		"{yyyy.MM.dd}-a":         "2026.01.05-a",
		"a{yyyyMMdd}{HH}":        "a2026010523",
		"x{HH.dd_yyyy-MM}":       "x23.05_2026-01",
		"x{dd_HH.MM.yyyy_dd}":    "x05_23.01.2026_05",
		"a-{yyyy_MM-dd}":         "a-2026_01-05",
		"\u00e9t\u00e9":          "\u00e9t\u00e9",
		strings.Repeat("a", 255): strings.Repeat("a", 255),
	} {
		n, err := parseIndexName(name)
		if err != nil {
			t.Errorf("%q: got %v, want nil", name, err)
		} else if got := string(n.append(nil, at)); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
	for name, want := range map[string]string{
		"a-{}": "braces", "a-{.}": "braces", "a-{yyyy": "braces", "a-{yy}": "braces", "a-{yyyy MM}": "braces", "a-{mm}": "braces", "{{yyyy}}": "braces",
		"Decisions": "lower case", "a b": "white space", "a/b": "white space", "a,b": "white space", "a*": "white space", "a#": "white space", "a:b": "white space", "a\tb": "white space", `a\`: "white space", "a}": "braces",
		"-a": "begin", "_a": "begin", "+a": "begin", ".": "begin", "..": "begin",
		strings.Repeat("a", 256): "255 bytes",
	} {
		if _, err := parseIndexName(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want an error with %q in it", name, err, want)
		}
	}
}

// Results as Elasticsearch 8 and OpenSearch 2 write them, cut down by filter_path.
const (
	created      = `{"create":{"status":201}}`
	conflict     = `{"create":{"status":409,"error":{"type":"version_conflict_engine_exception","reason":"[q-1]: version conflict, document already exists (current version [1])"}}}`
	mapping      = `{"create":{"status":400,"error":{"type":"document_parsing_exception","reason":"[1:6] failed to parse field [a] of type [long]","caused_by":{"reason":"For input string: \"x\""}}}}`
	busy         = `{"create":{"status":429,"error":{"type":"es_rejected_execution_exception","reason":"rejected execution of coordinating operation"}}}`
	blocked      = `{"create":{"status":403,"error":{"type":"cluster_block_exception","reason":"index [decisions] blocked by: [FORBIDDEN/8/index write (api)];"}}}`
	noIndex      = `{"create":{"status":404,"error":{"type":"index_not_found_exception","reason":"no such index [decisions]"}}}`
	unavailable  = `{"create":{"status":503,"error":{"type":"unavailable_shards_exception","reason":"[decisions][0] primary shard is not active"}}}`
	indexed      = `{"index":{"status":200}}`
	staleIndexed = `{"index":{"status":409,"error":{"type":"version_conflict_engine_exception","reason":"current version [2] is higher"}}}`
)

func answerOf(items ...string) []byte {
	return fmt.Appendf(nil, `{"errors":true,"items":[%s]}`, strings.Join(items, ","))
}

func TestBulkResults(t *testing.T) {
	create, index := bulk(t, ElasticsearchBulk{}), bulk(t, ElasticsearchBulk{Op: BulkIndex})
	for name, test := range map[string]struct {
		encoding Encoding
		results  []string
		kind     sinks.Kind
		items    []int
		words    []string // of the error; none: accepted
	}{
		"all new":                   {create, []string{created, created}, 0, nil, nil},
		"all there already":         {create, []string{conflict, conflict}, 0, nil, nil},
		"new and there already":     {create, []string{created, conflict}, 0, nil, nil},
		"replaced":                  {index, []string{indexed, indexed}, 0, nil, nil},
		"one does not fit":          {create, []string{created, mapping, conflict}, sinks.Rejected, []int{1}, []string{"1 of 3", "document_parsing_exception", "failed to parse field [a]"}},
		"two do not fit":            {create, []string{mapping, created, mapping}, sinks.Rejected, []int{0, 2}, []string{"2 of 3"}},
		"none fits":                 {create, []string{mapping, mapping}, sinks.Rejected, []int{0, 1}, []string{"2 of 2"}},
		"another version is there":  {index, []string{indexed, staleIndexed}, sinks.Rejected, []int{1}, []string{"409"}},
		"busy":                      {create, []string{created, busy}, sinks.Throttled, nil, []string{"1 of 2", "es_rejected_execution_exception"}},
		"shards":                    {create, []string{created, unavailable}, sinks.Transient, nil, []string{"unavailable_shards_exception"}},
		"no status":                 {create, []string{created, `{"create":{}}`}, sinks.Transient, nil, []string{"1 of 2"}},
		"blocked":                   {create, []string{blocked, blocked}, sinks.Misconfigured, nil, []string{"cluster_block_exception"}},
		"a text for the error":      {create, []string{`{"create":{"status":400,"error":"MapperParsingException[failed to parse]"}}`}, sinks.Rejected, []int{0}, []string{"400 MapperParsingException[failed to parse]"}},
		"no index":                  {create, []string{noIndex}, sinks.Misconfigured, nil, []string{"no such index", "create the index"}},
		"rejected before all":       {create, []string{busy, blocked, unavailable, mapping, created}, sinks.Rejected, []int{3}, []string{"4 of 5", "document_parsing_exception"}},
		"misconfigured before busy": {create, []string{busy, unavailable, blocked, busy}, sinks.Misconfigured, nil, []string{"cluster_block_exception"}},
		"busy before shards":        {create, []string{unavailable, busy, unavailable}, sinks.Throttled, nil, []string{"es_rejected"}},
	} {
		t.Run(name, func(t *testing.T) {
			err := test.encoding.Judge(200, answerOf(test.results...), many(len(test.results)), sinks.AnswerText)
			if test.words == nil {
				if err != nil {
					t.Errorf("Judge = %v, want nil", err)
				}
				return
			}
			f := failureOf(t, err, test.kind, test.words...)
			if !slices.Equal(f.Items, test.items) {
				t.Errorf("got the items %v, want %v", f.Items, test.items)
			}
		})
	}
}

func TestBulkAnswersOfEachItem(t *testing.T) {
	long := `{"create":{"status":400,"error":{"type":"document_parsing_exception","reason":"` + strings.Repeat("x", 2000) + `"}}}`
	f := failureOf(t, bulk(t, ElasticsearchBulk{}).Judge(200, answerOf(mapping, created, long, `{"create":{"status":400}}`), many(4), sinks.AnswerText), sinks.Rejected)
	for i, want := range map[int]sinks.Answer{
		0: {Status: "400", Text: `document_parsing_exception: [1:6] failed to parse field [a] of type [long]: For input string: "x"`},
		2: {Status: "400", Text: "document_parsing_exception: " + strings.Repeat("x", 481) + "..."},
		3: {Status: "400"},
	} {
		if got := f.Answer(i); got != want {
			t.Errorf("item %d: got the answer %v, want %v", i, got, want)
		}
	}
}

func TestBulkAnswer(t *testing.T) {
	const unfiltered = `{"took":30,"errors":true,"ingest_took":1,"items":[` +
		`{"create":{"_index":"d","_id":"q-1","_version":1,"result":"created","_shards":{"total":2,"successful":1,"failed":0},"_seq_no":0,"_primary_term":1,"status":201}},` +
		`{"create":{"_index":"d","_id":"q-2","status":400,"error":{"type":"mapper_parsing_exception","reason":"r","index_uuid":"u","shard":"0"}}}]}`
	for name, test := range map[string]struct {
		answer string
		items  int // of the batch
		kind   sinks.Kind
		want   []int
		words  []string // none: accepted
	}{
		"no errors":               {`{"errors":false,"items":[` + created + `]}`, 1, 0, nil, nil},
		"no errors, not filtered": {`{"took":3,"errors":false,"items":[{"create":{"_id":"a","status":201}}]}`, 1, 0, nil, nil},
		"no errors, errors last":  {`{"items":[` + created + `],"took":3,"errors":false}`, 1, 0, nil, nil},
		"no errors, cut off":      {`{"took":3,"errors":false,"items":[{"cre`, 9, sinks.Misconfigured, nil, []string{"unexpected end"}},
		"not filtered":            {unfiltered, 2, sinks.Rejected, []int{1}, []string{"mapper_parsing_exception"}},

		"fewer results":              {string(answerOf(mapping)), 2, sinks.Rejected, nil, []string{"1 results for 2 records"}},
		"more results":               {string(answerOf(mapping, mapping)), 1, sinks.Transient, nil, []string{"2 results for 1 records"}},
		"no results":                 {`{"errors":true}`, 2, sinks.Rejected, nil, []string{"0 results for 2 records"}},
		"no results for one":         {`{"errors":true,"items":[]}`, 1, sinks.Rejected, nil, []string{"0 results for 1 records"}},
		"empty":                      {"", 1, sinks.Misconfigured, nil, []string{"unexpected end"}},
		"text":                       {"OK", 1, sinks.Misconfigured, nil, []string{"must end in /_bulk"}},
		"page":                       {"<html>", 1, sinks.Misconfigured, nil, []string{"must end in /_bulk"}},
		"another object":             {`{"acknowledged":true}`, 1, sinks.Misconfigured, nil, []string{`"errors"`, "must end in /_bulk"}},
		"another object for nothing": {`{}`, 2, sinks.Misconfigured, nil, []string{`"errors"`}},
		"an array":                   {`[{"errors":false}]`, 1, sinks.Misconfigured, nil, []string{"must end in /_bulk"}},
		"errors is a number":         {`{"errors":1}`, 1, sinks.Misconfigured, nil, []string{"must end in /_bulk"}},
		"items is an object":         {`{"errors":true,"items":{}}`, 1, sinks.Misconfigured, nil, []string{"must end in /_bulk"}},
		"an item of two results":     {`{"errors":true,"items":[{"create":{},"index":{}}]}`, 1, sinks.Misconfigured, nil, []string{"must end in /_bulk"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := sinks.Batch{Items: make([]sinks.Item, test.items)}
			err := bulk(t, ElasticsearchBulk{}).Judge(200, []byte(test.answer), b, sinks.AnswerText)
			if test.words == nil && test.kind == 0 {
				if err != nil {
					t.Errorf("Judge = %v, want nil", err)
				}
				return
			}
			if f := failureOf(t, err, test.kind, test.words...); !slices.Equal(f.Items, test.want) {
				t.Errorf("got the items %v, want %v", f.Items, test.want)
			}
		})
	}
}

func TestBulkStatus(t *testing.T) {
	for name, test := range map[string]struct {
		config ElasticsearchBulk
		status int
		hint   string // none: left to the sink
	}{
		"no index":  {ElasticsearchBulk{}, 400, "set elasticsearchBulk.index"},
		"query":     {ElasticsearchBulk{Index: "a"}, 400, "check its query"},
		"too large": {ElasticsearchBulk{}, 413, ""},
		"busy":      {ElasticsearchBulk{}, 429, ""},
		"denied":    {ElasticsearchBulk{}, 403, ""},
	} {
		kind, hint, ok := bulk(t, test.config).Status(test.status, []byte(`{"error":{"type":"action_request_validation_exception"}}`))
		if ok != (test.hint != "") || !strings.Contains(hint, test.hint) || ok && kind != sinks.Misconfigured {
			t.Errorf("%s: Status = %s, %q, %t, want Misconfigured with %q in the hint, or none", name, kind, hint, ok, test.hint)
		}
	}
}
