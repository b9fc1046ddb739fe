package manifest

import (
	"bytes"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzReader wants of any file: no panic, no line that Append would write
// otherwise, no name that leads out of the directory, and no seq too many.
func FuzzReader(f *testing.F) {
	for _, list := range [][]string{lines(&testing.T{}, nil), lines(&testing.T{}, testKey(1))} {
		f.Add([]byte(strings.Join(list, "")))
		f.Add([]byte(strings.Join(list, "")[:500]))
		for _, line := range list {
			f.Add([]byte(line))
		}
	}
	f.Add([]byte("\n\n{}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := NewReader(bytes.NewReader(data))
		for {
			line, err := r.Next()
			if err != nil {
				if errors.Is(err, io.EOF) && r.End()+int64(r.Torn()) != int64(len(data)) {
					t.Fatalf("got %d bytes of lines and %d torn, want %d", r.End(), r.Torn(), len(data))
				}
				return
			}
			text := data[:r.End()]
			text = text[bytes.LastIndexByte(text[:len(text)-1], '\n')+1:]
			checkLine(t, line, text)
		}
	})
}

func checkLine(t *testing.T, line *Line, text []byte) {
	t.Helper()
	chain := Chain{Previous: line.Previous}
	var name string
	var again []byte
	var err error
	if e := line.Entry; e != nil {
		name = e.Name
		again, _, err = chain.Entry(*e)
		if n := e.Records + e.Gaps.Count(); e.Follow(0) == nil && n != e.LastSeq-e.From(0)+1 {
			t.Fatalf("got %d seqs from %d to %d in %s", n, e.From(0), e.LastSeq, text)
		}
	} else {
		name = line.Removed.Name
		again, _, err = chain.Removed(*line.Removed)
	}
	if err != nil {
		t.Fatalf("not written again: %v: %s", err, text)
	}
	body, _, _ := bytes.Cut(text, []byte(signatureMember))
	if line.IsSigned() {
		body = append(bytes.Clone(body), "}\n"...)
	}
	if !bytes.Equal(again, body) {
		t.Fatalf("got\n%swant\n%s", again, body)
	}
	if !filepath.IsLocal(name) {
		t.Fatalf("got a name that leads out: %q", name)
	}
}
