package linecut

import (
	"bytes"
	"strings"
	"testing"
)

// FuzzCutter: the pieces in which bytes come make no difference, and nothing over the limit is
// held.
func FuzzCutter(f *testing.F) {
	for _, seed := range []string{"", "\n", "a", "a\nb\r\n\n", "\r\r\n", strings.Repeat("x", 30) + "\ny\n" + strings.Repeat("z", 31), "\x00\x00a\n\x00"} {
		f.Add([]byte(seed), 8, 3, true)
	}
	f.Fuzz(func(t *testing.T, text []byte, limit, piece int, skipHoles bool) {
		limit, piece = min(max(limit, 1), 64), min(max(piece, 1), 100)
		type line struct {
			text   string
			length int64
		}
		var want, got []line
		add := func(lines *[]line) func([]byte, int64) error {
			return func(text []byte, length int64) error {
				*lines = append(*lines, line{string(text), length})
				return nil
			}
		}
		for part := range bytes.Lines(text) {
			part, whole := bytes.CutSuffix(part, []byte("\n"))
			if skipHoles {
				part = bytes.TrimLeft(part, "\x00")
			}
			length := int64(0)
			if len(part) > limit {
				length = int64(len(part))
				part = part[:min(len(part), MaxPrefix)]
			}
			if whole || len(part) > 0 {
				want = append(want, line{string(part), length})
			}
		}
		c := Cutter{Limit: limit, SkipHoles: skipHoles}
		for at := 0; at < len(text); at += piece {
			if err := c.Cut(text[at:min(len(text), at+piece)], add(&got)); err != nil {
				t.Fatal(err)
			}
			if held := len(c.part); held > max(limit, MaxPrefix) {
				t.Fatalf("got %d bytes held, want at most %d", held, limit)
			}
		}
		if !c.IsBetween() {
			_ = add(&got)(c.Rest())
		}
		if len(got) != len(want) {
			t.Fatalf("got %d lines, want %d: %v, %v", len(got), len(want), got, want)
		}
		for i := range got {
			isSame := got[i] == want[i]
			if want[i].length > 0 { // how much is kept of it depends on the pieces
				isSame = got[i].length == want[i].length && got[i].text != "" && strings.HasPrefix(want[i].text, got[i].text)
			}
			if !isSame {
				t.Fatalf("line %d: got %v, want %v", i, got[i], want[i])
			}
		}
	})
}

// A line without an end costs no more memory than its beginning.
func TestEndlessLine(t *testing.T) {
	const limit, blocks = 1 << 20, 100
	c := Cutter{Limit: limit}
	block := bytes.Repeat([]byte("x"), limit)
	for range blocks {
		if err := c.Cut(block, func([]byte, int64) error { t.Error("got a line"); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if text, length := c.Rest(); length != blocks*limit || len(text) != MaxPrefix || cap(c.part) > 2*limit {
		t.Errorf("got a line of %d bytes with %d of %d held, want %d with %d", length, len(text), cap(c.part), blocks*limit, MaxPrefix)
	}
}
