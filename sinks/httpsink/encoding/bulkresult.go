package encoding

import (
	"encoding/json"
	"errors"
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
func (r *bulkResult) answer(quote Quote) sinks.Answer {
	text := r.errorType + ": " + r.reason
	if r.cause != "" && !strings.Contains(text, r.cause) {
		text += ": " + r.cause
	}
	return sinks.Answer{Status: strconv.Itoa(r.status), Text: quote(strings.Trim(text, ": "))}
}

const errorVersionConflict = "version_conflict_engine_exception"

// kindOf says what the result of one record means for it, and in hint what to do:
//
//	2xx                                   accepted
//	409 version conflict, with op create  accepted: it is there already
//	401 403 404                           Misconfigured: true of any record in that index
//	429                                   Throttled
//	other 4xx: mapping, parsing, 409      Rejected
//	5xx, anything else                    Transient
//
// A 400 may also be true of any record: a closed index, an alias without an index, a missing pipeline. The
// delivery finds out: while no record at all is accepted, none is set aside.
func (e *elasticsearchBulk) kindOf(r *bulkResult) (kind sinks.Kind, hint string, accepted bool) {
	switch {
	case isSuccess(r.status), r.status == http.StatusConflict && e.op == BulkCreate && r.errorType == errorVersionConflict:
		return 0, "", true
	case r.status < 400 || r.status >= 500:
		return sinks.Transient, "", false
	}
	switch r.status {
	case http.StatusTooManyRequests:
		return sinks.Throttled, "", false
	case http.StatusUnauthorized, http.StatusForbidden:
		return sinks.Misconfigured, "check the permissions of the credentials", false
	case http.StatusNotFound:
		return sinks.Misconfigured, "create the index, or allow its creation", false
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
				r.status = statusIn(value)
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

// statusIn returns a whole number, which may stand in quotes. Of anything else it makes no status of success.
func statusIn(v rawjson.Value) int {
	n, _ := strconv.ParseInt(v.String(), 10, 16)
	return int(n)
}
