package config

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Size is a number of bytes, written as "64Mi", "2Gi" or "1500". The suffixes
// Ki Mi Gi Ti are powers of 1024, k M G T powers of 1000, as Kubernetes writes
// quantities.
type Size int64

// Of two that write a size equally short, String takes the first.
var sizeUnits = []struct {
	suffix string
	bytes  int64
}{
	{"Ti", 1 << 40},
	{"Gi", 1 << 30},
	{"Mi", 1 << 20},
	{"Ki", 1 << 10},
	{"T", 1e12},
	{"G", 1e9},
	{"M", 1e6},
	{"k", 1e3},
}

// maxSize is more than any disk has. Sums of sizes that are in bounds do not overflow.
const maxSize Size = 1 << 50

// UnmarshalText reads a size, from 0 to 1024Ti.
func (s *Size) UnmarshalText(text []byte) error {
	n, ok := parseSize(string(text))
	if !ok {
		return fmt.Errorf("must be a size such as 64Mi or 2Gi, not %q%s", shorten(string(text)), didYouMean(sizeMeant(string(text))))
	}
	if n > maxSize {
		return fmt.Errorf("must be at most %s, not %q", maxSize, shorten(string(text)))
	}
	*s = n
	return nil
}

func parseSize(text string) (Size, bool) {
	number, factor := text, int64(1)
	for _, u := range sizeUnits {
		if rest, ok := strings.CutSuffix(number, u.suffix); ok {
			number, factor = rest, u.bytes
			break
		}
	}
	n, err := strconv.ParseUint(number, 10, 63)
	if err != nil || int64(n) > math.MaxInt64/factor {
		return 0, false
	}
	return Size(int64(n) * factor), true
}

// foreignSize is a size as others write it: 64MB, 64 MiB, 1.5Gi, 64mb.
var foreignSize = regexp.MustCompile(`^([0-9]{1,15}(?:\.[0-9]{1,3})?) *([kKmMgGtT])([iI]?)[bB]?$`)

// sizeMeant is how text that is no size may have been meant, empty if nobody knows. A
// fraction is written in the next smaller unit.
func sizeMeant(text string) string {
	m := foreignSize.FindStringSubmatch(text)
	if m == nil {
		return ""
	}
	number, step, i := m[1], 1000.0, strings.Index("KMGT", strings.ToUpper(m[2]))
	if m[3] != "" {
		step = 1024
	}
	if strings.Contains(number, ".") {
		value, _ := strconv.ParseFloat(number, 64) // some digits
		number = strconv.FormatFloat(math.Round(value*step), 'f', 0, 64)
		i--
	}
	if i < 0 {
		return ""
	}
	unit := "kMGT"[i : i+1]
	if m[3] != "" {
		unit = "KMGT"[i:i+1] + "i"
	}
	if _, ok := parseSize(number + unit); !ok {
		return ""
	}
	return number + unit
}

// didYouMean is the end of a message that proposes text, if there is one.
func didYouMean(text string) string {
	if text == "" {
		return ""
	}
	return ", did you mean " + text + "?"
}

// MarshalText writes s so that UnmarshalText reads it back.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// String is the shortest way to write s.
func (s Size) String() string {
	shortest := strconv.FormatInt(int64(s), 10)
	for _, u := range sizeUnits {
		if s == 0 || int64(s)%u.bytes != 0 {
			continue
		}
		if text := strconv.FormatInt(int64(s)/u.bytes, 10) + u.suffix; len(text) < len(shortest) {
			shortest = text
		}
	}
	return shortest
}

// Duration is a length of time, written as "500ms", "1m30s" or "24h".
type Duration time.Duration

// UnmarshalText reads a duration in the form of time.ParseDuration.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("must be a duration such as 500ms, 30s, 5m or 24h, with its unit (a day is 24h), not %q%s", shorten(string(text)), didYouMean(durationMeant(string(text))))
	}
	*d = Duration(v)
	return nil
}

// foreignDuration is one in a unit that time.ParseDuration lacks, or in words.
var foreignDuration = regexp.MustCompile(`^([0-9]{1,6}) *([a-zA-Z]+)$`)

// foreignUnits are such units, in the hours or units that they are.
var foreignUnits = []struct {
	names []string
	times int
	unit  string
}{
	{[]string{"d", "day", "days"}, 24, "h"},
	{[]string{"w", "week", "weeks"}, 7 * 24, "h"},
	{[]string{"y", "year", "years"}, 365 * 24, "h"},
	{[]string{"h", "hour", "hours", "hr", "hrs"}, 1, "h"},
	{[]string{"m", "min", "mins", "minute", "minutes"}, 1, "m"},
	{[]string{"s", "sec", "secs", "second", "seconds"}, 1, "s"},
	{[]string{"ms", "msec", "millisecond", "milliseconds"}, 1, "ms"},
}

// durationMeant is how text that is no duration may have been meant, empty if nobody knows.
func durationMeant(text string) string {
	m := foreignDuration.FindStringSubmatch(text)
	if m == nil {
		return ""
	}
	n, _ := strconv.Atoi(m[1]) // six digits
	for _, u := range foreignUnits {
		if slices.Contains(u.names, strings.ToLower(m[2])) {
			return strconv.Itoa(n*u.times) + u.unit
		}
	}
	return ""
}

// MarshalText writes d so that UnmarshalText reads it back.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// String writes d without the zero parts of time.Duration: "1h", not "1h0m0s".
func (d Duration) String() string {
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}
