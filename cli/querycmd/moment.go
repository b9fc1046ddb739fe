package querycmd

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/docket-export/docket/decision"
	"github.com/docket-export/docket/decision/rawjson"
)

// timeSource says where the time of a record is from.
type timeSource string

// The sources, the first that says something counts.
const (
	fromRecord   timeSource = "record"   // normalized.when
	fromStamp    timeSource = "stamp"    // when the exporter received it, as its stamp says
	fromReceived timeSource = "received" // the same, as the queue says
	fromFile     timeSource = "file"     // when the exporter received the records of its file
)

// moment is when a record is from, made comparable. The zero moment is that of a record of
// which nothing is known.
type moment struct {
	at     time.Time
	until  time.Time // the latest that it can be; at but for fromFile
	source timeSource
}

// moment returns the time of r, which has the given form.
func (r *stored) moment(form *decision.Normalized) moment {
	if at := form.When; !at.IsZero() {
		return moment{at, at, fromRecord}
	}
	if at := stamped(r.line); !at.IsZero() {
		return moment{at, at, fromStamp}
	}
	if at := r.received; !at.IsZero() {
		return moment{at, at, fromReceived}
	}
	if r.first.IsZero() {
		return moment{}
	}
	return moment{r.first, r.last, fromFile}
}

// stamped is when a record was received, as the stamp of a sink says.
func stamped(record []byte) (at time.Time) {
	stamp := rawjson.Member(record, "_docket")
	if stamp.Kind() != rawjson.Object {
		return at
	}
	at, err := time.Parse(time.RFC3339Nano, string(rawjson.Member(stamp, "received").Text()))
	if err != nil {
		return time.Time{}
	}
	return at.UTC()
}

// isWithin reports whether m can be from, or later, and before to; zero bounds are none.
// isSure is false where it can be outside as well.
func (m moment) isWithin(from, to time.Time) (isIn, isSure bool) {
	if m.source == "" {
		return true, from.IsZero() && to.IsZero()
	}
	isIn = (from.IsZero() || !m.until.Before(from)) && (to.IsZero() || m.at.Before(to))
	isSure = (from.IsZero() || !m.at.Before(from)) && (to.IsZero() || m.until.Before(to))
	return isIn, isSure
}

// text is m for csv; empty where nothing is known.
func (m moment) text() string {
	if m.source == "" {
		return ""
	}
	return m.at.UTC().Format(time.RFC3339Nano)
}

// parseBound reads the value of --from or --to; an empty text is the zero time.
func parseBound(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly, "2006-01"} {
		if at, err := time.Parse(layout, text); err == nil {
			return at, nil
		}
	}
	ago, err := parseAgo(text)
	if err != nil {
		return time.Time{}, fmt.Errorf("%s %q is not a time: give 2026-03-01T12:00:00Z, a day or month such as 2026-03-01 or 2026-03 (UTC), or how long ago, such as 24h or 7d", flag, text)
	}
	return now.Add(-ago), nil
}

// parseAgo reads a duration, in which a day is 24 hours.
func parseAgo(text string) (time.Duration, error) {
	days, isDays := strings.CutSuffix(text, "d")
	if !isDays {
		ago, err := time.ParseDuration(text)
		if err == nil && ago <= 0 {
			err = errors.New("not in the past")
		}
		return ago, err
	}
	n, err := strconv.ParseUint(days, 10, 16)
	return time.Duration(n) * 24 * time.Hour, err
}
