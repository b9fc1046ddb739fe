package record

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// Every record is a line of JSON unlike all others, and is told by its id.
func TestNext(t *testing.T) {
	seen := map[string]bool{}
	for _, producer := range []int{0, 1, 999} {
		b, whole := NewBlock(producer), NewBlock(producer)
		for sent := 0; sent < 3*PerBlock; {
			lines := b.Next(sent, 100)
			if len(lines)%Bytes != 0 {
				t.Fatalf("%d bytes are not whole records of %d", len(lines), Bytes)
			}
			for line := range slices.Chunk(lines, Bytes) {
				line, ended := bytes.CutSuffix(line, []byte("\n"))
				if !ended || !json.Valid(line) || bytes.IndexByte(line, '\n') >= 0 {
					t.Fatalf("not a line of JSON: %q", line)
				}
				if seen[string(line)] {
					t.Fatalf("record %d of producer %d is not unique: %s", sent, producer, line)
				}
				seen[string(line)] = true
				if p, n, ok := ID(line); p != producer || n != sent || !ok {
					t.Errorf("got record %d of producer %d (%t), want %d of %d", n, p, ok, sent, producer)
				}
				if !whole.Has(line, sent) {
					t.Errorf("record %d is not taken for itself", sent)
				}
				sent++
			}
		}
	}
	if got := len(NewBlock(0).Next(PerBlock-3, 8)) / Bytes; got != 3 {
		t.Errorf("got %d records before the end of the block, want 3", got)
	}
}

func TestHasNoticesEveryChange(t *testing.T) {
	b := NewBlock(0)
	line := bytes.TrimSuffix(b.Next(5, 1), []byte("\n"))
	for at := range line {
		if at >= len(idPrefix) && at < idEnd {
			continue // says which record it is
		}
		changed := bytes.Clone(line)
		changed[at] ^= 1
		if b.Has(changed, 5) {
			t.Fatalf("byte %d was changed and nothing noticed", at)
		}
	}
	if b.Has(line[:len(line)-1], 5) || b.Has(append(bytes.Clone(line), ' '), 5) {
		t.Error("a line of another length is taken for a record")
	}
}

func TestIDOfWhatIsNoRecord(t *testing.T) {
	for name, line := range map[string]string{
		"empty":         "",
		"another line":  strings.Repeat("0", idEnd),
		"cut short":     idPrefix + "00000000001",
		"not a number":  idPrefix + "00000000000x",
		"with its sign": idPrefix + "-00000000001",
	} {
		if p, n, ok := ID([]byte(line)); ok {
			t.Errorf("%s: got record %d of producer %d", name, n, p)
		}
	}
}
