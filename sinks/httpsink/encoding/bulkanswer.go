package encoding

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/docket-export/docket/sinks"
)

// bulkAnswer is what has been read of the answer to a bulk request.
type bulkAnswer struct {
	fine  bool         // it says that there were no errors
	items []bulkResult // in the order of the request
}

// bulkResult says what became of one record.
type bulkResult struct {
	Status int `json:"status"`
	Error  struct {
		Type     string `json:"type"`
		Reason   string `json:"reason"`
		CausedBy struct {
			Reason string `json:"reason"`
		} `json:"caused_by"`
	} `json:"error"`
}

// answer is r in the destination's words.
func (r *bulkResult) answer() sinks.Answer {
	text := r.Error.Type + ": " + r.Error.Reason
	if cause := r.Error.CausedBy.Reason; cause != "" && !strings.Contains(text, cause) {
		text += ": " + cause
	}
	return sinks.Answer{Status: strconv.Itoa(r.Status), Text: sinks.AnswerText(strings.Trim(text, ": "))}
}

// Types of errors that say of a record what is true of its index.
const (
	errorVersionConflict  = "version_conflict_engine_exception"
	errorIndexClosed      = "index_closed_exception"
	errorInvalidIndexName = "invalid_index_name_exception"
)

// kindOf says what the result of one record means for it:
//
//	2xx                                            accepted
//	409 version conflict, with op create           accepted: it is there already
//	429                                            Throttled
//	401 403 404, a closed index, an invalid name   Misconfigured: true of any record in that index
//	other 4xx: mapping, parsing, limits, 409       Rejected
//	5xx, anything else                             Transient
func (e *elasticsearchBulk) kindOf(r *bulkResult) (kind sinks.Kind, accepted bool) {
	switch {
	case r.Status >= 200 && r.Status < 300:
		return 0, true
	case r.Status == http.StatusConflict && e.op == BulkCreate && r.Error.Type == errorVersionConflict:
		return 0, true
	case r.Status == http.StatusTooManyRequests:
		return sinks.Throttled, false
	case r.Status == http.StatusUnauthorized, r.Status == http.StatusForbidden, r.Status == http.StatusNotFound,
		r.Error.Type == errorIndexClosed, r.Error.Type == errorInvalidIndexName, e.refusedByStream(r):
		return sinks.Misconfigured, false
	case r.Status >= 400 && r.Status < 500:
		return sinks.Rejected, false
	}
	return sinks.Transient, false
}

// refusedByStream recognises what a data stream says to op index. Nothing but the
// text tells, and taken for a refusal of the record it would set aside every one.
func (e *elasticsearchBulk) refusedByStream(r *bulkResult) bool {
	return e.op == BulkIndex && strings.Contains(r.Error.Reason, "op_type of create are allowed in data streams")
}

// Judge implements Encoding.
//
// Of results that differ in kind, Rejected is reported before all others: it is
// certain, what it names will not be sent again, and the rest, which is, is none
// the worse for it. Then Misconfigured, which nothing but an operator ends, then
// Throttled.
func (e *elasticsearchBulk) Judge(_ int, body []byte, b sinks.Batch) error {
	answer, err := readBulkAnswer(body)
	if answer.fine {
		return nil
	}
	if n := len(answer.items); n > len(b.Items) || n < len(b.Items) && err == nil {
		return unmatched(n, b)
	}
	if f := e.failure(answer.items); f != nil {
		return f
	}
	if err != nil {
		return unreadable(err, len(body), b)
	}
	return nil
}

// failure is what the results have to say, nil when they accept everything.
func (e *elasticsearchBulk) failure(results []bulkResult) *sinks.Failure {
	var worst *sinks.Failure
	refused := 0
	for i := range results {
		kind, accepted := e.kindOf(&results[i])
		if accepted {
			continue
		}
		refused++
		if worst == nil || precedence(kind) > precedence(worst.Kind) {
			worst = &sinks.Failure{Kind: kind, Said: results[i].answer()}
		}
		if kind == sinks.Rejected {
			worst.Items = append(worst.Items, i)
			worst.Each = append(worst.Each, results[i].answer())
		}
	}
	if worst != nil {
		worst.Err = fmt.Errorf("%d of %d records refused, such as: %s %s%s",
			refused, len(results), worst.Said.Status, worst.Said.Text, e.hint(worst))
	}
	return worst
}

// precedence ranks the kinds for Judge.
func precedence(k sinks.Kind) int {
	switch k {
	case sinks.Rejected:
		return 3
	case sinks.Misconfigured:
		return 2
	case sinks.Throttled:
		return 1
	}
	return 0
}

// hint says what to do about f.
func (e *elasticsearchBulk) hint(f *sinks.Failure) string {
	if f.Kind != sinks.Misconfigured {
		return ""
	}
	switch {
	case strings.Contains(f.Said.Text, "data streams"):
		return ": set elasticsearchBulk.op to create"
	case f.Said.Status == strconv.Itoa(http.StatusNotFound):
		return ": make the index, or allow it to be made"
	case f.Said.Status == strconv.Itoa(http.StatusBadRequest):
		return ": check elasticsearchBulk.index, and that the index is open"
	}
	return ": check what the credentials permit, and whether the index is blocked"
}

// unreadable is the failure for an answer of which err has cut off the rest.
func unreadable(err error, size int, b sinks.Batch) error {
	switch {
	case size >= maxBulkAnswer && len(b.Items) > 1:
		return &sinks.Failure{Kind: sinks.Rejected, Err: fmt.Errorf(
			"some of %d records refused, in an answer of more than %d bytes: send fewer records at a time", len(b.Items), maxBulkAnswer)}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("the answer to the bulk request is incomplete: %w", err)
	}
	return sinks.Failf(sinks.Misconfigured, "the answer is not that of a bulk request: %w: http.url must end in /_bulk", err)
}

// unmatched is the failure for an answer that does not say what became of each
// record. Of a single one there is no doubt which it means; of more, smaller
// batches find out, and the _id keeps what was taken from being doubled.
func unmatched(results int, b sinks.Batch) error {
	err := fmt.Errorf("the answer has %d results for %d records, and says that there were errors", results, len(b.Items))
	if len(b.Items) > 1 {
		return &sinks.Failure{Kind: sinks.Rejected, Err: err}
	}
	return err
}

// readBulkAnswer reads as much of an answer as there is; with an error it returns
// what stands before it.
func readBulkAnswer(body []byte) (bulkAnswer, error) {
	var a bulkAnswer
	d := json.NewDecoder(bytes.NewReader(body))
	if err := expect(d, '{'); err != nil {
		return a, err
	}
	judged := false
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return a, err
		}
		switch name {
		case "errors":
			var errs bool
			if err = d.Decode(&errs); err == nil && !errs {
				return bulkAnswer{fine: true}, nil // the items have nothing to add
			}
			judged = true
		case "items":
			a.items, err = readBulkResults(d)
		default:
			err = d.Decode(&json.RawMessage{})
		}
		if err != nil {
			return a, err
		}
	}
	if err := expect(d, '}'); err != nil {
		return a, err
	}
	if !judged {
		return a, errors.New(`it has no member "errors"`)
	}
	return a, nil
}

func readBulkResults(d *json.Decoder) ([]bulkResult, error) {
	var results []bulkResult
	if err := expect(d, '['); err != nil {
		return nil, err
	}
	for d.More() {
		var item map[string]bulkResult // by its op
		if err := d.Decode(&item); err != nil {
			return results, err
		}
		if len(item) != 1 {
			return results, errors.New("an item has not one result")
		}
		for _, r := range item {
			results = append(results, r)
		}
	}
	return results, expect(d, ']')
}

func expect(d *json.Decoder, want json.Delim) error {
	got, err := d.Token()
	if err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("got %v, want %v", got, want)
	}
	return nil
}
