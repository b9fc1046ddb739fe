package terminal

import (
	"strings"
	"unicode"

	"golang.org/x/text/width"
)

// Visible is text in one line, with every character escaped that would steer a terminal,
// or hide or reorder what stands beside it; see appendVisible.
func Visible(text string) string {
	visible, rest := appendVisible(nil, []byte(strings.Join(strings.Fields(text), " ")))
	return string(visible) + strings.Repeat("?", len(rest))
}

// Cells is how many columns of a terminal a visible text takes.
func Cells(text string) (n int) {
	for _, r := range text {
		n += cells(r)
	}
	return n
}

func cells(r rune) int {
	if r < 0x300 {
		return 1
	}
	if unicode.In(r, unicode.Mn, unicode.Me) {
		return 0 // stands above or below the one before
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// Cut is text in at most so many columns. What is left out shows as an ellipsis.
func Cut(text string, most int) string {
	if Cells(text) <= most {
		return text
	}
	if most <= 0 {
		return ""
	}
	n := 0
	for i, r := range text {
		if n += cells(r); n > most-1 {
			return text[:i] + "…"
		}
	}
	return text
}
