package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

func TestLineReader(t *testing.T) {
	longest := strings.Repeat("x", maxLine)
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
			r := newLineReader(strings.NewReader(test.input))
			var got []string
			for {
				line, err := r.next()
				if errors.Is(err, io.EOF) {
					break
				}
				if errors.Is(err, errTooLong) {
					line = []byte("too long")
				} else if err != nil {
					t.Fatal(err)
				}
				got = append(got, fmt.Sprintf("%d %s", r.number, line))
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
	r := newLineReader(io.MultiReader(strings.NewReader("a\nhalf"), iotest.ErrReader(broken)))
	if line, err := r.next(); err != nil || string(line) != "a" {
		t.Fatalf("got %q, %v, want the first line", line, err)
	}
	if line, err := r.next(); !errors.Is(err, broken) {
		t.Errorf("got %q, %v, want error %v", line, err, broken)
	}
}

// TestLineNumbers compares with a plain list, while the oldest are forgotten.
func TestLineNumbers(t *testing.T) {
	input := []uint64{1, 2, 3, 5, 6, 10, 12, 14, 15, 16, 17, 30}
	var n lineNumbers
	for i, line := range input {
		n.add(line)
		forgotten := uint64(max(0, i-3))
		n.forget(forgotten)
		for sent := forgotten + 1; sent <= uint64(i+1); sent++ {
			if got, want := n.line(sent), input[sent-1]; got != want {
				t.Errorf("after %d lines: got line %d for number %d, want %d", i+1, got, sent, want)
			}
		}
	}
	n.forget(uint64(len(input)))
	if len(n.runs) > 1 {
		t.Errorf("got %d runs kept when all is forgotten, want at most 1", len(n.runs))
	}
}

func TestProgress(t *testing.T) {
	p := newProgress(bytes.NewReader(make([]byte, 1000)), 1000, start)
	if _, err := io.ReadFull(p, make([]byte, 750)); err != nil {
		t.Fatal(err)
	}
	c := counts{stored: 30, refused: 2, inFlight: 250, connected: true}
	for name, test := range map[string]struct{ got, want string }{
		"bar":     {p.line(c, start.Add(2e9)), "[==========          ]  50%  30 stored, 2 refused, 15 lines/s"},
		"away":    {p.line(counts{inFlight: 750}, start.Add(2e9)), "[                    ]   0%  0 stored, 0 refused, 0 lines/s, no connection"},
		"no size": {newProgress(nil, 0, start).line(c, start.Add(2e9)), "30 stored, 2 refused, 15 lines/s"},
		"grown":   {newGrown(t).line(counts{stored: 1, connected: true}, start.Add(1e9)), "[====================] 100%  1 stored, 0 refused, 1 lines/s"},
		"summary": {p.summary(c, start.Add(2e9)), "30 lines stored, 2 refused, in 2s (15 lines/s)"},
		"one":     {p.summary(counts{stored: 1}, start), "1 line stored, 0 refused, in 0s (1000 lines/s)"},
	} {
		t.Run(name, func(t *testing.T) {
			if test.got != test.want {
				t.Errorf("got  %q\nwant %q", test.got, test.want)
			}
		})
	}
}

// newGrown is a file that has grown since its size was taken.
func newGrown(t *testing.T) *progress {
	t.Helper()
	p := newProgress(strings.NewReader("0123456789"), 5, start)
	if _, err := io.Copy(io.Discard, p); err != nil {
		t.Fatal(err)
	}
	return p
}

// TestConsole: a message takes the place of the progress line, and without a
// terminal there is no such line.
func TestConsole(t *testing.T) {
	for name, test := range map[string]struct {
		terminal bool
		want     string
	}{
		"terminal": {true, "10%\r\x1b[Kline 1 refused\n20%\r\x1b[K30%\r\x1b[K"},
		"file":     {false, "line 1 refused\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			c := &console{w: &b}
			if test.terminal {
				c.raw = &b
			}
			c.draw("10%")
			c.say("line %d refused", 1)
			c.draw("20%")
			c.draw("30%")
			c.draw("")
			if got := b.String(); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
