package deadletter

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

func newDice() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }

// FuzzParseLine reads anything as a line: what is a letter is written again as the same.
func FuzzParseLine(f *testing.F) {
	for _, l := range []line{{Version: version}, {Redrive: []uint64{3, 4}}, {Letter: Letter{Seq: 3, Reason: `","record":`, Record: []byte(`{"record":1}`)}}, {Letter: Letter{Seq: 4}}} {
		text, err := l.append(nil)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(bytes.TrimSuffix(text, []byte("\n")))
	}
	f.Add([]byte("00000000 "))
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := parseLine(b)
		if err != nil || bytes.IndexByte(b, '\n') >= 0 {
			return
		}
		text, err := l.append(nil)
		if err != nil {
			t.Fatal(err)
		}
		again, err := parseLine(bytes.TrimSuffix(text, []byte("\n")))
		if err != nil || again.Seq != l.Seq || !bytes.Equal(again.Record, l.Record) || again.Reason != l.Reason {
			t.Errorf("%q written again: got %q, %v", b, text, err)
		}
	})
}

// FuzzDamage changes some bytes of a log: every letter that is found is one of
// those that were written, or one as it was before it was replaced.
func FuzzDamage(f *testing.F) {
	f.Add(uint16(3), []byte("x"), false)
	f.Add(uint16(300), []byte("\n"), true)
	f.Fuzz(func(t *testing.T, at uint16, change []byte, cut bool) {
		var log []byte
		written := map[string]bool{}
		for seq := uint64(1); seq <= 6; seq++ {
			before := len(log)
			l := line{Letter: Letter{Seq: 1 + seq%4, Record: bytes.Repeat([]byte{byte('a' + seq)}, int(seq)*7)}}
			var err error
			if log, err = l.append(log); err != nil {
				t.Fatal(err)
			}
			written[string(log[before:])] = true
		}
		from := int(at) % len(log)
		n := copy(log[from:], change)
		if cut {
			log = log[:from+n]
		}
		d := newTestDisk(newDice())
		err := d.place().MakeDir()
		if err == nil {
			err = d.place().Join(logFile).WriteNew(log)
		}
		if err != nil {
			t.Fatal(err)
		}
		s, err := open(d.place(), Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range s.index.entries {
			l, err := s.read(e)
			text := line{Letter: l}
			if again, _ := text.append(nil); err != nil || !written[string(again)] {
				t.Errorf("got letter %q, %v, which was never written", again, err)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}
