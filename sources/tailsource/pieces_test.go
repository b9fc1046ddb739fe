package tailsource

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/docket-export/docket/sources/sourcetest"
	"github.com/docket-export/docket/sources/tailsource/formats"
)

const canary = "canary-5f1d"

// censored makes a log in the framing of a container runtime, of whose lines a word is to
// be redacted.
func censored(t *testing.T) *bench {
	b := newBench(t, formats.CRI)
	b.env.Redaction = &sourcetest.Censor{Text: canary}
	return b
}

// wantNoCanary looks at the state on disk.
func (b *bench) wantNoCanary() {
	b.t.Helper()
	if text, err := os.ReadFile(statePath(b.env.StateDir).String()); err == nil && strings.Contains(string(text), canary) {
		b.t.Fatalf("got a state with what is to be redacted: %s", text)
	}
}

const stamp = "2026-01-05T10:04:07.1Z "

// TestPiecesInAnyInterleaving: no half of a line in pieces is kept that is to be redacted, and
// each line is stored once, whatever docket and the queue do between two of them.
func TestPiecesInAnyInterleaving(t *testing.T) {
	for n := range 6 / few(3) {
		seed := rand.Uint64()
		if testing.Short() {
			seed = uint64(n) // the gate decides nothing by chance
		}
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			dice := rand.New(rand.NewPCG(seed, 0))
			b := censored(t)
			b.start()
			var want []string
			begun := map[string]string{} // what is still to come of the line of a stream
			for step := range 120 {
				name := []string{"stdout", "stderr"}[dice.IntN(2)]
				if begun[name] == "" {
					text := fmt.Sprintf(`{"n":%d,"text":"%s %s"}`, step, canary, strings.Repeat("x", dice.IntN(300)))
					begun[name], want = text, append(want, text)
				}
				text, tag := begun[name], "F"
				if n := 1 + dice.IntN(len(text)+len(text)/2); n < len(text) {
					text, tag = text[:n], "P"
				}
				begun[name] = strings.TrimPrefix(begun[name], text)
				b.write(stamp + name + " " + tag + " " + text + "\n")
				if choice := dice.IntN(10); choice < 6 {
					b.upset(choice)
				}
				b.wantNoCanary()
			}
			for name, text := range begun {
				if text != "" {
					b.write(stamp + name + " F " + text + "\n")
				}
			}
			b.in.Drain()
			b.in.Release()
			b.await("all records", func() bool { return len(b.stored()) >= len(want) })
			got := b.stored()
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("got %d records, want each of %d once", len(got), len(want))
			}
			b.stop()
			b.wantNoCanary()
		})
	}
}

// TestABeginningThatIsGone: of a line whose beginning is in a file that docket is done with,
// nothing is stored after a restart. It is counted, and nothing else is missing or takes its
// place.
func TestABeginningThatIsGone(t *testing.T) {
	t.Parallel()
	b := censored(t)
	b.start()
	b.write(stamp + "stdout F {\"n\":1}\n" + stamp + "stdout P {\"text\":\"" + canary + "\n")
	b.wantStored([]string{`{"n":1}`})
	b.rotate(1)
	b.write(stamp + "stderr F {\"n\":2}\n")
	b.wantStored([]string{`{"n":1}`, `{"n":2}`})
	b.stop()
	b.wantNoCanary()
	b.write(stamp + "stdout P  and\n" + stamp + "stdout F  more\"}\n" + stamp + "stdout F {\"n\":3}\n")
	b.start()
	b.await("the last line", func() bool { s := b.stored(); return s[len(s)-1] == `{"n":3}` })
	b.compare([]string{`{"n":1}`, `{"n":2}`, `{"n":2}`, `{"n":3}`}) // rather twice than not at all
	if r := b.source.Report(); r.Lost != 1 || r.LostLines != 1 || r.LostBytes != 0 {
		t.Errorf("got %+v, want the gap of the line", r)
	}
	b.stop()
	b.wantNoCanary()
}

// TestTheTextOfAnEarlierState is used, and is not kept.
func TestTheTextOfAnEarlierState(t *testing.T) {
	t.Parallel()
	b := censored(t)
	b.env.Redaction = nil
	b.start()
	b.write(stamp + "stdout F {\"n\":1}\n" + stamp + "stdout P {\"text\":\"" + canary + "\n")
	b.wantStored([]string{`{"n":1}`})
	b.stop()
	b.env.Redaction = &sourcetest.Censor{Text: canary}
	b.start()
	b.stop()
	b.wantNoCanary()
	b.start()
	b.write(stamp + "stdout F \"}\n")
	b.wantStored([]string{`{"n":1}`, `{"text":"` + canary + `"}`})
}
