package config

import (
	"fmt"
	"math"
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

// UnmarshalText reads a size. It is never negative.
func (s *Size) UnmarshalText(text []byte) error {
	number, factor := string(text), int64(1)
	for _, u := range sizeUnits {
		if rest, ok := strings.CutSuffix(number, u.suffix); ok {
			number, factor = rest, u.bytes
			break
		}
	}
	n, err := strconv.ParseUint(number, 10, 63)
	if err != nil || int64(n) > math.MaxInt64/factor {
		return fmt.Errorf("must be a size such as 64Mi or 2Gi, not %q", shorten(string(text)))
	}
	*s = Size(int64(n) * factor)
	return nil
}

// Shape says it in a schema.
func (Size) Shape() Shape {
	return Shape{"type": anys([]string{"string", "integer"}), "pattern": "^[0-9]+([KMGT]i|[kMGT])?$", "minimum": 0}
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

// Shape says it in a schema. The one number without a unit is 0.
func (Duration) Shape() Shape {
	return Shape{
		"type":    anys([]string{"string", "integer"}),
		"pattern": `^[-+]?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$`,
		"minimum": 0, "maximum": 0,
	}
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
