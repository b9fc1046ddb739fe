package config

import (
	"fmt"
	"math"
	"regexp"
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
		meant := sizeMeant(string(text))
		if meant != "" {
			meant = ", did you mean " + meant + "?"
		}
		return fmt.Errorf("must be a size such as 64Mi or 2Gi, not %q%s", shorten(string(text)), meant)
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

// foreignSize is a size as others write it: 64MB, 64 MiB, 64mb.
var foreignSize = regexp.MustCompile(`^([0-9]{1,15}) *([kKmMgGtT])([iI]?)[bB]?$`)

// sizeMeant is how text that is no size may have been meant, empty if nobody knows.
func sizeMeant(text string) string {
	m := foreignSize.FindStringSubmatch(text)
	if m == nil {
		return ""
	}
	unit := strings.ToUpper(m[2])
	switch {
	case m[3] != "":
		unit += "i"
	case unit == "K":
		unit = "k"
	}
	if _, ok := parseSize(m[1] + unit); !ok {
		return ""
	}
	return m[1] + unit
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
		return fmt.Errorf("must be a duration such as 500ms, 30s, 5m or 24h, with its unit (a day is 24h), not %q", shorten(string(text)))
	}
	*d = Duration(v)
	return nil
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
