// Package human has the forms of numbers, times and texts that people read.
package human

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Time returns a time to the second, in a form that --from accepts, or "-" without one.
func Time(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

// Duration is d in its two largest units, as exact as it matters: "12s",
// "1m30s", "2h5m", "3d4h".
func Duration(d time.Duration) string {
	const day = 24 * time.Hour
	switch d = max(d, 0); {
	case d < time.Hour:
		return d.Round(time.Second).String()
	case d < day:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	default:
		return fmt.Sprintf("%dd%dh", d/day, d%day/time.Hour)
	}
}

// Lag is the age of the oldest pending record; "-" when none is.
func Lag(seconds float64) string {
	if seconds == 0 {
		return "-"
	}
	lag := time.Duration(seconds * float64(time.Second))
	if lag < time.Minute {
		return lag.Round(100 * time.Millisecond).String()
	}
	return Duration(lag)
}

// Rate is so many records a second, as exact as it matters: "-", "0.02/s", "3.5/s", "1200/s".
func Rate(perSecond float64) string {
	switch {
	case perSecond == 0:
		return "-"
	case perSecond < 0.01:
		return "<0.01/s"
	case perSecond < 1:
		return fmt.Sprintf("%.2f/s", perSecond)
	case perSecond < 10:
		return fmt.Sprintf("%.1f/s", perSecond)
	}
	return fmt.Sprintf("%.0f/s", perSecond)
}

// Count is "1 record" or "7 records".
func Count(n uint64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.FormatUint(n, 10) + " " + noun + "s"
}

// Size is n bytes for a person, with one decimal.
func Size(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	value, unit := float64(n), 0
	for value >= 1024 && unit < len(units)-1 {
		value, unit = value/1024, unit+1
	}
	return strings.TrimSuffix(strconv.FormatFloat(value, 'f', 1, 64), ".0") + " " + units[unit]
}

// OneLine replaces characters that break the line or control a terminal. Use it for texts of
// other programs.
func OneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if !strconv.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
}

// Counts lists the counts that are not zero: "InvalidJSON 2, TooLarge 1".
func Counts(counts map[string]uint64) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		if n := counts[name]; n > 0 {
			parts = append(parts, name+" "+strconv.FormatUint(n, 10))
		}
	}
	return strings.Join(parts, ", ")
}

// textWidth is how wide the text of a status gets: that of the terminals that
// nobody has enlarged. A table with long names can be wider.
const textWidth = 80

// Wrap returns head and text on one line, and breaks the text between words where the line
// would be longer than textWidth. The lines that follow begin with indent.
func Wrap(head, text, indent string) string {
	var b strings.Builder
	b.WriteString(head)
	width, space := utf8.RuneCountInString(head), 0
	for _, word := range strings.Fields(OneLine(text)) {
		n := utf8.RuneCountInString(word)
		if space > 0 && width+space+n > textWidth {
			b.WriteString("\n" + indent)
			width, space = len(indent), 0
		}
		b.WriteString(strings.Repeat(" ", space) + word)
		width, space = width+space+n, 1
	}
	return b.String() + "\n"
}
