package deadletter

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
)

func newDice() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }

// FuzzScan reads anything as a log: what is a letter can be read again and written
// again as the same, and nothing of the file is neither line, hole nor tail.
func FuzzScan(f *testing.F) {
	log := appendHead(nil)
	log, _ = appendLetter(log, false, 17, 3, []byte(`{"reason":"no"}`), []byte(`{"a":1}`))
	log, _ = appendLetter(log, true, 17, 4, []byte(`{}`), nil)
	log = appendChange(log, wordRedrive, int64(len(log)), []span{{3, 3}})
	f.Add(bytes.Clone(log))
	f.Add(appendChange(bytes.Clone(log), wordRemove, 20, []span{{1, 3}, {7, 9}}))
	f.Add(append(bytes.Clone(log), "00000000 kept 1 2 3 4 00000000 x y\n"...))
	f.Add([]byte("\n\n00000000 \n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := scan(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		if s.end > s.size || s.sure > s.end || s.size != int64(len(b)) {
			t.Errorf("got end %d, sure up to %d of %d bytes", s.end, s.sure, len(b))
		}
		for _, h := range s.holes {
			if h.from >= h.to || h.to > s.end {
				t.Errorf("got hole %v in a log of %d bytes", h, s.end)
			}
		}
		var bytesOf int64
		for _, e := range s.index.entries {
			bytesOf += e.size()
			text := b[e.at : e.at+e.size()]
			l, err := parseLine(text[:len(text)-1])
			if err != nil || !l.isLetter() || l.seq != e.seq || text[len(text)-1] != '\n' {
				t.Fatalf("letter %d: got %q, %v", e.seq, text, err)
			}
			head, err := parseStart(text[:e.start()])
			if err != nil || !bytes.Equal(head.about, l.about) {
				t.Errorf("letter %d without its record: got %q, %v, want %q", e.seq, head.about, err, l.about)
			}
			again, n := appendLetter(nil, l.word == wordRedriving, l.after, l.seq, l.about, l.record)
			if m, err := parseLine(again[:len(again)-1]); err != nil || n != m.head || !bytes.Equal(m.about, l.about) || !bytes.Equal(m.record, l.record) {
				t.Errorf("letter %d written again: got %q, %v", e.seq, again, err)
			}
		}
		if bytesOf != s.index.bytes || !slices.IsSortedFunc(s.index.entries, func(a, b entry) int { return int(min(a.seq, b.seq+1)) - int(b.seq) - 1 }) {
			t.Errorf("got an index that does not add up: %+v", s.index)
		}
	})
}

// FuzzDamage changes some bytes of a log: every letter that is found is one of
// those that were written, or one as it was before it was replaced.
func FuzzDamage(f *testing.F) {
	f.Add(uint16(3), []byte("x"), false)
	f.Add(uint16(300), []byte("\n"), true)
	f.Fuzz(func(t *testing.T, at uint16, change []byte, cut bool) {
		log := appendHead(nil)
		written := map[string]bool{}
		for seq := uint64(1); seq <= 6; seq++ {
			before := len(log)
			record := bytes.Repeat([]byte{byte('a' + seq)}, int(seq)*7)
			log, _ = appendLetter(log, false, int64(before), seq%4, []byte(`{"reason":"no"}`), record)
			written[string(log[before:])] = true
		}
		damaged := bytes.Clone(log)
		from := int(at) % len(damaged)
		n := copy(damaged[from:], change)
		if cut {
			damaged = damaged[:from+n]
		}
		s, err := scan(bytes.NewReader(damaged), int64(len(damaged)))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range s.index.entries {
			if text := damaged[e.at : e.at+e.size()]; !written[string(text)] {
				t.Errorf("got letter %q, which was never written", text)
			}
		}
	})
}
