package runs

import (
	"slices"
	"strings"
	"testing"
)

// A byte order mark before the first line of a file is no part of the line.
func TestByteOrderMark(t *testing.T) {
	const text = "\ufeff{\"n\":1}\n\ufeff\n{\"n\":2}\n"
	var got []string
	err := eachLine(strings.NewReader(text), 1<<10, func(l line) error {
		got = append(got, string(l.text))
		return nil
	})
	if want := []string{`{"n":1}`, `{"n":2}`}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}
