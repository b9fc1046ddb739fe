package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
)

// Summary is what is shown of the values of a figure, one for each round.
type Summary struct {
	Median, Least, Greatest float64
}

// Summarize returns the summary of values, of which there is at least one. It does not
// change them.
func Summarize(values []float64) Summary {
	s := slices.Sorted(slices.Values(values))
	n := len(s)
	return Summary{Median: (s[(n-1)/2] + s[n/2]) / 2, Least: s[0], Greatest: s[n-1]}
}

// Range says the least and the greatest, and nothing where they are the same.
func (s Summary) Range() string {
	if s.Least < s.Greatest {
		return Number(s.Least) + " .. " + Number(s.Greatest)
	}
	return ""
}

// Target is what the median of a figure has to reach; one of the three is set.
type Target struct {
	AtLeast float64 `yaml:"atLeast"`
	AtMost  float64 `yaml:"atMost"`
	Zero    bool
}

// Met reports whether the median of values reaches the target.
func (t Target) Met(values []float64) bool {
	v := Summarize(values).Median
	switch {
	case t.Zero:
		return v == 0
	case t.AtMost > 0:
		return v <= t.AtMost
	}
	return v >= t.AtLeast
}

// Verdict says whether the median of values reaches the target.
func (t Target) Verdict(values []float64) string {
	if t.Met(values) {
		return "met"
	}
	return "NOT met"
}

func (t Target) String() string {
	switch {
	case t.Zero:
		return "0"
	case t.AtMost > 0:
		return fmt.Sprintf("<= %g", t.AtMost)
	}
	return fmt.Sprintf(">= %g", t.AtLeast)
}

// Number writes v with three significant digits, and whole thousands apart.
func Number(v float64) string {
	if math.Abs(v) < 100 {
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	digits := strconv.FormatFloat(math.Round(v), 'f', 0, 64)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + " " + digits[i:]
	}
	return digits
}
