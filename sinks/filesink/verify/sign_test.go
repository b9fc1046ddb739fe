package verify

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/docket-export/docket/sinks/filesink/manifest"
)

// edited does to an export what somebody does who can write and has no key: change a
// file, and make the manifest agree.
func edited(b *builder, names []string) {
	b.t.Helper()
	b.change(names[1], flip(30))
	b.chainAnew(b.chain.Key, func(lines []*manifest.Line) []*manifest.Line {
		lines[1].Entry.SHA256 = sumOf(b.read(names[1]))
		return lines
	})
}

func TestSignatures(t *testing.T) {
	for name, tt := range map[string]struct {
		keys []byte // those given to Run
		do   func(b *builder, names []string)
		kind Kind // empty: no break
		line uint64
		from uint64 // the first signed line
	}{
		"signed":                 {keys: []byte{1}, do: func(*builder, []string) {}, from: 1},
		"one of two keys":        {keys: []byte{2, 1}, do: func(*builder, []string) {}, from: 1},
		"no key given":           {do: func(*builder, []string) {}, from: 1},
		"another key":            {keys: []byte{2}, do: func(*builder, []string) {}, kind: SignatureWrong, line: 1},
		"rebuilt without a key":  {keys: []byte{1}, do: func(b *builder, n []string) { b.chain.Key = nil; edited(b, n) }, kind: SignatureMissing, line: 5},
		"rebuilt, other key":     {keys: []byte{1}, do: func(b *builder, n []string) { b.chain.Key = testKey(2); edited(b, n) }, kind: SignatureWrong, line: 1},
		"rebuilt, nobody checks": {do: func(b *builder, n []string) { b.chain.Key = nil; edited(b, n) }},
		"rebuilt by its owner":   {keys: []byte{1}, do: edited, from: 1},
		"line added without": {keys: []byte{1}, do: func(b *builder, _ []string) {
			b.chain.Key = nil
			b.add(file{to: 25})
		}, kind: SignatureMissing, line: 6},
		"line added without, and one with": {keys: []byte{1}, do: func(b *builder, _ []string) {
			key := b.chain.Key
			b.chain.Key = nil
			b.add(file{to: 25})
			b.chain.Key = key
			b.add(file{to: 30})
		}, kind: SignatureMissing, line: 6},
		"removal without a key": {keys: []byte{1}, do: func(b *builder, n []string) {
			b.chain.Key = nil
			b.remove(n[1])
		}, kind: SignatureMissing, line: 6},
		"key changed": {keys: []byte{1, 2}, do: func(b *builder, _ []string) {
			b.chain.Key = testKey(2)
			b.add(file{to: 25})
		}, from: 1},
		"line edited": {keys: []byte{1}, do: func(b *builder, _ []string) {
			b.changeLines(manifest.FileName, func(l []string) []string {
				l[2] = strings.Replace(l[2], `"finished":"2026`, `"finished":"2025`, 1)
				return l
			})
		}, kind: SignatureWrong, line: 3},
		"signature of another line": {keys: []byte{1}, do: func(b *builder, _ []string) {
			b.changeLines(manifest.FileName, func(l []string) []string {
				body, _, _ := strings.Cut(l[2], `,"signature"`)
				_, signature, _ := strings.Cut(l[3], `,"signature"`)
				l[2] = body + `,"signature"` + signature
				return l
			})
		}, kind: SignatureWrong, line: 3},
		"signature taken off": {keys: []byte{1}, do: func(b *builder, _ []string) {
			b.changeLines(manifest.FileName, func(l []string) []string {
				body, _, _ := strings.Cut(l[4], `,"signature"`)
				l[4] = body + "}\n"
				return l
			})
		}, kind: SignatureMissing, line: 5},
		"end taken away": { // the limit of what a signature can show
			keys: []byte{1}, do: func(b *builder, n []string) {
				name := b.add(file{to: 25})
				b.must(os.Remove(b.path(name)))
				b.changeLines(manifest.FileName, func(l []string) []string { return l[:5] })
			}, from: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBuilder(t)
			b.chain.Key = testKey(1)
			tt.do(b, standard(b, ""))
			o := Options{}
			if tt.keys != nil {
				o.PublicKeys = publicKeys(tt.keys...)
			}
			r := mustRun(t, b.dir, o)
			if tt.kind == "" {
				if r.Break != nil || r.SignedFrom != tt.from || r.Signed != (tt.keys != nil) {
					t.Errorf("got %+v, signed from %d, proven %t; want no break, %d, %t", r.Break, r.SignedFrom, r.Signed, tt.from, tt.keys != nil)
				}
				return
			}
			if r.Break == nil || r.Break.Kind != tt.kind || r.Break.Line != tt.line {
				t.Errorf("got %+v, want %s in line %d", r.Break, tt.kind, tt.line)
			}
		})
	}
}

// Signing may begin when an export is there already: the first signature covers
// what was before.
func TestSignedLater(t *testing.T) {
	b := newBuilder(t)
	names := standard(b, "")
	o := Options{PublicKeys: publicKeys(1)}
	if r := mustRun(t, b.dir, o); r.Break == nil || r.Break.Kind != SignatureMissing || r.Break.Line != 5 {
		t.Errorf("no line signed: got %+v, want that the signature is missing", r.Break)
	}
	b.chain.Key = testKey(1)
	b.add(file{to: 25})
	if r := mustRun(t, b.dir, o); r.Break != nil || r.SignedFrom != 6 || !r.Signed {
		t.Errorf("got %+v, signed from %d, want no break and 6", r.Break, r.SignedFrom)
	}
	last := slices.Collect(strings.Lines(string(b.read(manifest.FileName))))[5]
	b.chain.Key = nil
	edited(b, names)
	b.changeLines(manifest.FileName, func(l []string) []string { return append(l[:5], last) })
	if r := mustRun(t, b.dir, o); r.Break == nil || r.Break.Kind != ChainBroken || r.Break.Line != 6 {
		t.Errorf("rebuilt up to the signature: got %+v, want that line 6 does not follow", r.Break)
	}
}

func TestLast(t *testing.T) {
	id := func(queue string, seq uint64) *Anchor { return &Anchor{Queue: queue, Seq: seq} }
	b := newBuilder(t)
	b.add(file{queue: queueB, from: 7, to: 9})
	standard(b, "")
	head := b.chain.Previous
	middle := sumOf([]byte(strings.TrimSuffix(slices.Collect(strings.Lines(string(b.read(manifest.FileName))))[2], "\n")))
	for name, tt := range map[string]struct {
		last  *Anchor
		found string // empty: no break
	}{
		"last record":        {id(queueA, 20), ""},
		"earlier record":     {id(queueA, 12), ""},
		"removed record":     {id(queueA, 3), ""},
		"record in a gap":    {id(queueA, 13), ""},
		"other queue":        {id(queueB, 9), ""},
		"later record":       {id(queueA, 21), "the export ends with seq 20"},
		"before the export":  {id(queueB, 6), "the export begins with seq 7"},
		"beyond the other":   {id(queueB, 10), "the export ends with seq 9"},
		"unknown queue":      {id("00000000-0000-0000-0000-000000000001", 1), "no record of this queue"},
		"hash of the head":   {&Anchor{Line: &head}, ""},
		"hash of the middle": {&Anchor{Line: &middle}, ""},
		"hash of nothing":    {&Anchor{Line: &manifest.Hash{1}}, "none of 6 lines"},
	} {
		r := mustRun(t, b.dir, Options{Last: tt.last})
		if tt.found == "" {
			if r.Break != nil {
				t.Errorf("%s: got %+v, want no break", name, r.Break)
			}
			continue
		}
		if r.Break == nil || r.Break.Kind != LastMissing || !strings.Contains(r.Break.Found, tt.found) {
			t.Errorf("%s: got %+v, want %q", name, r.Break, tt.found)
		}
	}
	// The newest file and its line are both gone: only Last can tell.
	b.must(os.Remove(b.path(standardName(4))))
	b.changeLines(manifest.FileName, func(l []string) []string {
		return slices.Concat(l[:4], l[5:5]) // the removal of the first file went as well
	})
	b.write(standardName(1), []byte(strings.Join(recordsOf(1, 5), "")))
	if r := mustRun(t, b.dir, Options{}); r.Break != nil {
		t.Errorf("not asked: got %+v, want no break", r.Break)
	}
	for name, last := range map[string]*Anchor{"id": id(queueA, 20), "hash": {Line: &head}} {
		if r := mustRun(t, b.dir, Options{Last: last}); r.Break == nil || r.Break.Kind != LastMissing {
			t.Errorf("end gone, %s: got %+v, want that it is missing", name, r.Break)
		}
	}
}

func recordsOf(from, to uint64) (lines []string) {
	for seq := from; seq <= to; seq++ {
		lines = append(lines, fmt.Sprintln(recordOf(queueA, seq)))
	}
	return lines
}
