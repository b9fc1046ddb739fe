package encoding

import (
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/docket-export/docket/decision/rawjson"
	"github.com/docket-export/docket/sinks"
)

// bulkAnswer is what has been read of the answer to a bulk request.
type bulkAnswer struct {
	errors  bool         // it says that there were errors
	results []bulkResult // in the order of the request
}

// bulkResult says what became of one record. Its error is an object or, from old
// servers and some proxies, a text, which is read as the reason.
type bulkResult struct {
	status    int
	errorType string
	reason    string
	cause     string // the reason of what caused it
}

// answer is r in the destination's words.
func (r *bulkResult) answer() sinks.Answer {
	text := r.errorType + ": " + r.reason
	if r.cause != "" && !strings.Contains(text, r.cause) {
		text += ": " + r.cause
	}
	return sinks.Answer{Status: strconv.Itoa(r.status), Text: sinks.AnswerText(strings.Trim(text, ": "))}
}

// refusal is an error that every record would get until an operator acts.
type refusal struct {
	errorType    string // empty: any
	begins, ends string // of the reason: what a record says stands in the midst of one, if at all
	hint         string // what to do
}

// Refusals come with any status of 400 to 499, most as 400, which is what a
// record that cannot be parsed gets as well. Taken for that they would set aside
// every record there is.
var refusals = []refusal{
	// Set by hand, by a disk that is nearly full, or by moving the index to a colder tier.
	{errorType: "cluster_block_exception", hint: "check whether the index is blocked, and whether the disks are full"},
	{errorType: "index_closed_exception", hint: "open the index"},
	{errorType: "index_not_found_exception", hint: hintNoIndex},
	// The name can differ by date, but not so that some are right.
	{errorType: "invalid_index_name_exception", hint: "check elasticsearchBulk.index"},
	{errorType: "security_exception", hint: hintPermission},
	// A new index, such as that of a new day, needs shards. The type was changed between versions.
	{begins: "Validation Failed: 1: this action would add [", hint: "raise cluster.max_shards_per_node, or delete indices"},
	{errorType: "illegal_argument_exception", begins: "pipeline with id [", ends: "] does not exist",
		hint: "create the ingest pipeline, or correct its name in http.url or the index settings"},
	{errorType: "illegal_argument_exception", begins: "no write index is defined for alias [",
		hint: "set is_write_index for one index of the alias"},
	{begins: "only write ops with an op_type of create are allowed in data streams", hint: "set elasticsearchBulk.op to create"},
	// Policy engines write no @timestamp, and docket changes no record.
	{ends: "data stream timestamp field [@timestamp] is missing",
		hint: "let an ingest pipeline set @timestamp, or use an index that is no data stream"},
}

const (
	hintNoIndex    = "create the index, or allow its creation"
	hintPermission = "check the permissions of the credentials"
)

// is reports whether r is this refusal.
func (f *refusal) is(r *bulkResult) bool {
	if f.errorType != "" && f.errorType != r.errorType {
		return false
	}
	says := func(reason string) bool {
		return strings.HasPrefix(reason, f.begins) && strings.HasSuffix(reason, f.ends)
	}
	return says(r.reason) || says(r.cause)
}

const errorVersionConflict = "version_conflict_engine_exception"

// kindOf says what the result of one record means for it, and in hint what to do:
//
//	2xx                                   accepted
//	409 version conflict, with op create  accepted: it is there already
//	4xx of refusals, 401 403 404          Misconfigured: true of any record in that index
//	429                                   Throttled
//	other 4xx: mapping, parsing, 409      Rejected
//	5xx, anything else                    Transient
func (e *elasticsearchBulk) kindOf(r *bulkResult) (kind sinks.Kind, hint string, accepted bool) {
	switch {
	case isSuccess(r.status), r.status == http.StatusConflict && e.op == BulkCreate && r.errorType == errorVersionConflict:
		return 0, "", true
	case r.status < 400 || r.status >= 500:
		return sinks.Transient, "", false
	}
	for i := range refusals {
		if refusals[i].is(r) {
			return sinks.Misconfigured, refusals[i].hint, false
		}
	}
	switch r.status {
	case http.StatusTooManyRequests:
		return sinks.Throttled, "", false
	case http.StatusUnauthorized, http.StatusForbidden:
		return sinks.Misconfigured, hintPermission, false
	case http.StatusNotFound:
		return sinks.Misconfigured, hintNoIndex, false
	}
	return sinks.Rejected, "", false
}

func isSuccess(status int) bool { return status >= 200 && status < 300 }

// readBulkAnswer reads an answer. It returns at most so many results.
func readBulkAnswer(body []byte, most int) (bulkAnswer, error) {
	if err := json.Unmarshal(body, new(json.RawMessage)); err != nil {
		return bulkAnswer{}, err
	}
	says, items := rawjson.Member(body, "errors"), rawjson.Member(body, "items")
	switch {
	case says != nil && says.Kind() != rawjson.Boolean, items != nil && items.Kind() != rawjson.Array:
		return bulkAnswer{}, errors.New(`its members "errors" and "items" have the wrong types`)
	case says == nil:
		return bulkAnswer{}, errors.New(`it has no member "errors"`)
	}
	a := bulkAnswer{errors: says[0] == 't'}
	for item := range rawjson.Items(items) {
		result, ok := readBulkResult(item)
		if !ok {
			return a, errors.New("an item does not have exactly one result")
		}
		if a.results = append(a.results, result); len(a.results) == most {
			break
		}
	}
	return a, nil
}

// readBulkResult reads an item: an object with the operation as its one member.
func readBulkResult(item rawjson.Value) (r bulkResult, ok bool) {
	results := 0
	for _, result := range rawjson.Members(item) {
		results++
		for name, value := range rawjson.Members(result) {
			switch {
			case string(name) == "status":
				r.status = int(wholeNumber(value))
			case string(name) == "error" && value.Kind() == rawjson.Object:
				r.errorType, r.reason = rawjson.Get(value, "type").String(), rawjson.Get(value, "reason").String()
				r.cause = rawjson.Get(value, "caused_by.reason").String()
			case string(name) == "error":
				r.reason = value.String()
			}
		}
	}
	return r, item.Kind() == rawjson.Object && results == 1
}

// wholeNumber returns a number without its fraction, which may stand in quotes, 0 for any
// other value.
func wholeNumber(v rawjson.Value) int64 {
	text := v.String()
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.Abs(f) >= 1<<53 {
		return 0
	}
	return int64(f)
}
