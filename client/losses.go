package client

import (
	"encoding/json"
	"time"

	"github.com/docket-export/docket/decision"
)

// LossEventType is the eventType of the record in which a client says, in the
// stream itself, what it had to drop:
//
//	{"eventType":"docket.loss","schemaVersion":1,"timestamp":"...","since":"...","until":"...",
//	 "producer":"...","lost":{"allow":120,"deny":3},"reasons":{"Full":123}}
//
// It covers what was lost since the last such record of this producer that the
// exporter has stored, so the sum over all of them is what is missing.
const LossEventType = "docket.loss"

// lossPause is the least time between two loss records: a client that is
// overloaded for long says so once a second.
const lossPause = time.Second

// lossReserve is room for two loss records in the buffer: one under way, and one
// that Close adds. They must not wait for room.
const lossReserve = 2 * (usualText + lineOverhead)

// kind is how a line is counted when it is lost: by its decision.
type kind uint8

// kinds are the names of the kinds. The last is for lines of another decision or
// of none.
var kinds = [...]decision.Decision{decision.Deny, decision.Error, decision.Warn, decision.DryRun, decision.Allow, Unspecified}

const unspecified = kind(len(kinds) - 1)

func kindOf(d decision.Decision) kind {
	for i, name := range kinds[:unspecified] {
		if d == name {
			return kind(i)
		}
	}
	return unspecified
}

// reason says why a record never reached the exporter.
type reason uint8

const (
	lostFull     reason = iota // the buffer was full
	lostInvalid                // it could not be encoded
	lostTooLarge               // it is larger than the buffer
	lostClosed                 // the client has ended
)

var reasons = [...]string{"Full", "Invalid", "TooLarge", "Closed"}

// tally counts lost records in two ways; both add up to the same.
type tally struct {
	kinds        [len(kinds)]uint64
	reasons      [len(reasons)]uint64
	since, until time.Time
}

func (t *tally) empty() bool { return t.since.IsZero() }

// add adds what o counts, which was lost at another time.
func (t *tally) add(o *tally) {
	for i, n := range o.kinds {
		t.kinds[i] += n
	}
	for i, n := range o.reasons {
		t.reasons[i] += n
	}
	if t.empty() || o.since.Before(t.since) {
		t.since = o.since
	}
	if o.until.After(t.until) {
		t.until = o.until
	}
}

// losses counts what was lost, and what the exporter was told of it. One loss
// record is under way at a time. The zero value works; guarded by link.mu.
type losses struct {
	total  [len(kinds)]uint64 // since the client began
	untold tally              // not in any loss record
	saying int                // loss records under way
	last   time.Time          // when the latest was made
}

func (s *losses) add(k kind, r reason, n uint64) {
	now := time.Now()
	s.untold.kinds[k] += n
	s.untold.reasons[r] += n
	if s.untold.empty() {
		s.untold.since = now
	}
	s.untold.until = now
}

// due reports whether a loss record is to be sent now, or else how long it takes
// until one is; 0 if none is.
func (s *losses) due() (now bool, wait time.Duration) {
	if s.untold.empty() || s.saying > 0 {
		return false, 0
	}
	if wait := time.Until(s.last.Add(lossPause)); wait > 0 {
		return false, wait
	}
	return true, 0
}

// line returns the loss record to send; nil if there is nothing to tell.
func (s *losses) line(producer string) *line {
	if s.untold.empty() {
		return nil
	}
	said := s.untold
	s.untold, s.last = tally{}, time.Now()
	s.saying++
	// Not one that was used before: lossReserve counts on its size.
	text := said.appendLine(make([]byte, 0, usualText), producer, s.last)
	return &line{text: text, keep: true, report: &said}
}

// lossRecord is the form of a loss record. The eventType comes first: the
// exporter knows it by its first bytes.
type lossRecord struct {
	EventType     string            `json:"eventType"`
	SchemaVersion int               `json:"schemaVersion"`
	Timestamp     time.Time         `json:"timestamp"`
	Since         time.Time         `json:"since"`
	Until         time.Time         `json:"until"`
	Producer      string            `json:"producer"`
	Lost          map[string]uint64 `json:"lost"`
	Reasons       map[string]uint64 `json:"reasons"`
}

// lossPrefix is how every loss record begins.
var lossPrefix = []byte(`{"eventType":"` + LossEventType + `",`)

func (t *tally) appendLine(dst []byte, producer string, now time.Time) []byte {
	r := lossRecord{
		EventType: LossEventType, SchemaVersion: decision.SchemaVersion,
		Timestamp: now.UTC(), Since: t.since.UTC(), Until: t.until.UTC(),
		Producer: producer, Lost: map[string]uint64{}, Reasons: map[string]uint64{},
	}
	for i, n := range t.kinds {
		if n > 0 {
			r.Lost[string(kinds[i])] = n
		}
	}
	for i, n := range t.reasons {
		if n > 0 {
			r.Reasons[reasons[i]] = n
		}
	}
	text, err := json.Marshal(r)
	if err != nil {
		panic("client: a loss record that cannot be encoded: " + err.Error()) // it has no such values
	}
	return append(append(dst, text...), '\n')
}
