package kafkasink

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/docket-export/docket/sinks"
)

// result is what became of items of a batch.
type result struct {
	accepted []int // indexes into the batch
	rejected []*rejection
	err      error // a *sinks.Failure; why the remaining items have no answer
	throttle time.Duration
}

// rejection is one item that will never be taken, and why.
type rejection struct {
	item   int // index into the batch
	status string
	err    error
}

// reject adds an item. status is the broker's name for the reason, empty when
// the reason is docket's.
func (r *result) reject(item int, status string, err error) {
	r.rejected = append(r.rejected, &rejection{item, status, err})
}

// fail adds the failure of other items, if any. What an operator must act on
// hides behind no passing trouble.
func (r *result) fail(err error) {
	if err != nil && (r.err == nil || sinks.FailureOf(err).Kind > sinks.FailureOf(r.err).Kind) {
		r.err = err
	}
}

// merge adds what became of other items.
func (r *result) merge(o result) {
	r.accepted = append(r.accepted, o.accepted...)
	r.rejected = append(r.rejected, o.rejected...)
	r.fail(o.err)
	r.throttle = max(r.throttle, o.throttle)
}

// failure is r as the answer of Send. Rejected comes first: it is final, and
// the delivery loop offers all the others again in any case.
func (r *result) failure(ctx context.Context) error {
	switch {
	case len(r.rejected) > 0:
		return r.rejection()
	case r.err != nil && ctx.Err() != nil:
		return ctx.Err()
	}
	return r.err
}

func (r *result) rejection() *sinks.Failure {
	slices.SortFunc(r.rejected, func(a, b *rejection) int { return cmp.Compare(a.item, b.item) })
	f := &sinks.Failure{Kind: sinks.Rejected, Taken: len(r.accepted) > 0, Err: r.rejected[0].err}
	for _, rejected := range r.rejected {
		f.Items = append(f.Items, rejected.item)
		f.Each = append(f.Each, sinks.Answer{Status: rejected.status, Text: answerText(rejected.err)})
	}
	f.Said = f.Each[0]
	return f
}

// answerText is the text of err as one printable line of sinks.MaxAnswerText
// bytes at most. A part of it is what a broker said.
func answerText(err error) string {
	line := strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(err.Error(), "?"))
	return cut(line, sinks.MaxAnswerText)
}

// excerpt is the beginning of a value of a record: as much as tells which it is.
func excerpt(value string) string {
	const enough = 64
	if len(value) > enough {
		return cut(value, enough) + "..."
	}
	return value
}

// cut shortens text to at most n bytes, without splitting a rune.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}
