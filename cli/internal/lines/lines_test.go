package lines

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

func TestLineReader(t *testing.T) {
	longest := strings.Repeat("x", Max)
	for name, test := range map[string]struct {
		input string
		want  []string // number and text
	}{
		"empty":                        {"", nil},
		"one":                          {"a\n", []string{"1 a"}},
		"no newline at the end":        {"a\nb", []string{"1 a", "2 b"}},
		"CRLF":                         {"a\r\nb\r\n", []string{"1 a", "2 b"}},
		"white space inside is kept":   {" a b \n", []string{"1  a b "}},
		"blank lines have a number":    {"\n \t\na\n\r\n\nb\n\n", []string{"3 a", "6 b"}},
		"only blank lines":             {"\n\n \n", nil},
		"longest":                      {longest + "\nb\n", []string{"1 " + longest, "2 b"}},
		"longest with CRLF":            {longest + "\r\nb\n", []string{"1 " + longest, "2 b"}},
		"longest without newline":      {longest, []string{"1 " + longest}},
		"one byte too long":            {"a\n" + longest + "y\nb\n", []string{"1 a", "2 too long", "3 b"}},
		"one byte too long, CRLF":      {longest + "y\r\nb\n", []string{"1 too long", "2 b"}},
		"far too long, without an end": {longest + longest, []string{"1 too long"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := NewReader(strings.NewReader(test.input))
			var got []string
			for {
				line, err := r.Next()
				if errors.Is(err, io.EOF) {
					break
				}
				if errors.Is(err, ErrTooLong) {
					line = []byte("too long")
				} else if err != nil {
					t.Fatal(err)
				}
				got = append(got, fmt.Sprintf("%d %s", r.Number, line))
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got %.200q, want %.200q", got, test.want)
			}
		})
	}
}

// TestLineReaderFails: what was read of a line that never ended is no line.
func TestLineReaderFails(t *testing.T) {
	broken := errors.New("broken")
	r := NewReader(io.MultiReader(strings.NewReader("a\nhalf"), iotest.ErrReader(broken)))
	if line, err := r.Next(); err != nil || string(line) != "a" {
		t.Fatalf("got %q, %v, want the first line", line, err)
	}
	if line, err := r.Next(); !errors.Is(err, broken) {
		t.Errorf("got %q, %v, want error %v", line, err, broken)
	}
}
