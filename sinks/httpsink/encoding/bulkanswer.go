package encoding

import (
	"fmt"

	"github.com/docket-export/docket/sinks"
)

// judge wants every record to have a result: where results are
// missing, nothing says that their records were taken, whatever "errors" says.
//
// Of results that differ in kind, Rejected is reported first: it is certain, its records
// are not sent again, and the others are. Then Misconfigured, which only an operator can
// end, then Throttled.
func (e *elasticsearchBulk) judge(_ int, body []byte, b sinks.Batch, quote Quote) error {
	answer, err := readBulkAnswer(body, len(b.Items)+1)
	if err != nil {
		return sinks.Failf(sinks.Misconfigured, "the answer is not from the bulk API: %w: http.url must end in /_bulk", err)
	}
	refused, results := e.failure(answer.results, quote), len(answer.results)
	switch {
	case results > len(b.Items):
		return fmt.Errorf("the answer has %d results for %d records: it does not answer this request", results, len(b.Items))
	case results < len(b.Items):
		return unmatched(&answer, refused, b)
	case refused != nil:
		return refused
	}
	return nil
}

// failure is what the results have to say, nil when they accept everything.
func (e *elasticsearchBulk) failure(results []bulkResult, quote Quote) *sinks.Failure {
	var worst *sinks.Failure
	var todo string
	refused := 0
	for i := range results {
		kind, hint, accepted := e.kindOf(&results[i])
		if accepted {
			continue
		}
		refused++
		if worst == nil || kind > worst.Kind {
			worst, todo = &sinks.Failure{Kind: kind, Said: results[i].answer(quote)}, hint
		}
		if kind == sinks.Rejected {
			worst.Items = append(worst.Items, i)
			worst.Each = append(worst.Each, results[i].answer(quote))
		}
	}
	if worst == nil {
		return nil
	}
	worst.Taken = refused < len(results)
	worst.Err = fmt.Errorf("%d of %d records rejected, such as: %s %s", refused, len(results), worst.Said.Status, worst.Said.Text)
	if todo != "" {
		worst.Err = fmt.Errorf("%w: %s", worst.Err, todo)
	}
	return worst
}

// unmatched is the failure for an answer that has fewer results than
// b has records, so that they cannot be told apart. Where it speaks of errors,
// there is no doubt which record it means when it is a single one; of more,
// smaller batches find out. The _id keeps what was taken from being doubled.
func unmatched(a *bulkAnswer, refused *sinks.Failure, b sinks.Batch) error {
	if a.errors || refused != nil {
		return rejected(fmt.Errorf("the answer has %d results for %d records, and reports errors", len(a.results), len(b.Items)))
	}
	return fmt.Errorf("the answer has %d results for %d records, and does not say that all were accepted: "+
		"it must have the status of every item: check filter_path in http.url", len(a.results), len(b.Items))
}

// rejected is a refusal that names no record.
func rejected(err error) *sinks.Failure {
	return &sinks.Failure{Kind: sinks.Rejected, Said: sinks.Answer{Text: sinks.AnswerText(err.Error())}, Err: err}
}
