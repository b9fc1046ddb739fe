package delta

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/docket-export/docket/decision/rawjson"
	"github.com/docket-export/docket/sources"
)

// ErrRedaction says that a violation cannot be redacted now. Send nothing of it,
// because its record depends on what redaction leaves. Begin the run again.
var ErrRedaction = errors.New("delta: a violation cannot be redacted")

// Redact makes r remove from each violation what must not be kept, before any of it is kept
// or becomes part of a key. A nil r removes nothing. Call Redact before the first Begin.
// fingerprint is that of r. Redact reports whether the violations in the state were redacted
// in the same way. If not, their keys have changed, and they may hold what must not be kept:
// call Reset.
func (t *Tracker) Redact(r sources.Redaction, fingerprint string) (same bool) {
	t.redaction, t.fingerprint = r, fingerprint
	return t.state.Version == 0 || t.state.Redaction == fingerprint
}

// Reset forgets the state, also on disk: no violation stands.
func (t *Tracker) Reset() error {
	if err := t.path.RemoveAny(); err != nil {
		return fmt.Errorf("delta: %w", err)
	}
	t.state, t.standing, t.run = state{Interval: t.interval}, make(map[key]standing), nil
	if err := t.tidy(); err != nil {
		return err
	}
	return t.path.Dir().SyncDir()
}

// parse reads a violation as redaction leaves it; without one, as it came.
func (r *Run) parse(line []byte) (violation, error) {
	if r.t.redaction == nil || rawjson.KindOf(line) != rawjson.Object {
		return parse(line, &r.t.scratch)
	}
	return parseRedacted(line, r.t.redaction, &r.t.scratch)
}

// parseRedacted reads what redaction leaves of a line. What only the intake will redact is
// left out of the values, which are sent again: the HMAC of an HMAC is no use to anybody.
func parseRedacted(line []byte, redaction sources.Redaction, scratch *[]byte) (violation, error) {
	c, err := clean(line, redaction)
	if errors.Is(err, sources.ErrOutgrown) {
		return violation{plain: c.refused}, ErrTooLong
	}
	if err != nil {
		return violation{}, fmt.Errorf("%w: %w", ErrRedaction, err)
	}
	v, parseErr := parse(c.body, scratch)
	if v.plain = line; bytes.Equal(c.kept, c.body) {
		return v, parseErr
	}
	if v.plain = c.kept; parseErr != nil {
		return v, parseErr
	}
	kept := identify(c.kept)
	v.key = keyOf(kept, scratch)
	for i := range v.values {
		if !bytes.Equal(v.values[i], kept[i]) {
			v.values[i] = nil
		}
	}
	return v, nil
}

// cleaned is a line, a JSON object, without what must not be kept.
type cleaned struct {
	// body is the line without the values that rules mean by where they stand in it. It
	// goes into a record, of which the intake takes out those that rules mean by where
	// they stand there.
	body []byte
	// kept is without either: a JSON object, perhaps an empty one.
	kept []byte
	// refused is what the intake refuses as too long after redaction, if that is what is
	// wrong.
	refused []byte
}

func clean(line []byte, redaction sources.Redaction) (c cleaned, err error) {
	if c.body, err = redaction.Append(nil, line); err != nil {
		return cleaned{refused: line}, err
	}
	c.body = bytes.Trim(c.body, " \t\r")
	record := fmt.Appendf(nil, `{"violation":%s}`, c.body)
	stored, err := redaction.Append(nil, record)
	if err != nil {
		return cleaned{refused: record}, err
	}
	c.kept = rawjson.Member(stored, "violation")
	if rawjson.KindOf(c.kept) != rawjson.Object {
		c.kept = []byte("{}")
	}
	return c, nil
}

// Clean returns what redaction leaves of a violation, a JSON object, for any text about
// the violation.
func Clean(line []byte, redaction sources.Redaction) ([]byte, error) {
	c, err := clean(line, redaction)
	return c.kept, err
}
