package encoding

import (
	"cmp"

	"github.com/docket-export/docket/sinks"
)

// maxProse is as much as it takes to quote an answer that only a person reads.
const maxProse = 64 << 10

// traits are what an encoding wants of the request and of its answer, apart from
// the body. What embeds it leaves every status other than 2xx to the sink, unless it says
// otherwise.
type traits struct {
	contentType string
	query       string
	tokenScheme string // empty: Bearer
	maxAnswer   int    // 0: maxProse
	acceptance  Acceptance

	answerDecides bool
}

// ContentType implements Encoding.
func (t *traits) ContentType() string { return t.contentType }

// Query implements Encoding.
func (t *traits) Query() string { return t.query }

// TokenScheme implements Encoding.
func (t *traits) TokenScheme() string { return cmp.Or(t.tokenScheme, "Bearer") }

// MaxAnswer implements Encoding.
func (t *traits) MaxAnswer() int { return cmp.Or(t.maxAnswer, maxProse) }

// Acceptance implements Encoding.
func (t *traits) Acceptance() Acceptance { return t.acceptance }

// AnswerDecides implements Encoding.
func (t *traits) AnswerDecides() bool { return t.answerDecides }

// Judge implements Encoding.
func (t *traits) Judge(int, []byte, sinks.Batch) error { return nil }

// Status implements Encoding.
func (t *traits) Status(int, []byte) (kind sinks.Kind, hint string, ok bool) { return 0, "", false }
