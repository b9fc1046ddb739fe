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
				if torn := data[bytes.LastIndexByte(data, '\n')+1:]; errors.Is(err, io.EOF) && r.Torn() != len(torn) {
					t.Fatalf("got %d bytes torn, want %d", r.Torn(), len(torn))
				}
				return
			}
			checkLine(t, line, bytes.SplitAfter(data, []byte("\n"))[r.Number()-1])
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
		n := e.Records
		for gap := range e.Gaps.All() {
			n += gap.To - gap.From + 1
		}
		if e.Follow(0) == nil && n != e.LastSeq-e.From(0)+1 {
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
