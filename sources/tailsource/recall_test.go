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

// TestPiecesInAnyInterleaving: a line that a runtime has cut into pieces is read again from
// where it began, whatever a log, its rotation, docket and the queue do between two of them.
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
				} else if choice == 6 {
					b.rotate(99)
					b.write("")
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

// TestABeginningThatIsGone: of a line whose beginning was deleted nothing is stored, and
// nothing else is missing or takes its place.
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
	if err := os.Remove(b.path + ".1"); err != nil {
		t.Fatal(err)
	}
	b.write(stamp + "stdout P  and\n" + stamp + "stdout F  more\"}\n" + stamp + "stdout F {\"n\":3}\n")
	b.start()
	b.wantStored([]string{`{"n":1}`, `{"n":2}`, `{"n":3}`})
	if r := b.source.Report(); r.Lost != 1 || r.LostLines != 1 || r.LostBytes != 0 {
		t.Errorf("got %+v, want the gap of the line", r)
	}
	b.stop()
	b.wantNoCanary()
}

// TestLinesBehindABeginningThatIsGone: without that line the lines behind it, which were
// sent before a crash, are counted otherwise. None of them is taken for the one that had
// its number.
func TestLinesBehindABeginningThatIsGone(t *testing.T) {
	t.Parallel()
	b := censored(t)
	b.start()
	b.write(stamp + "stdout P {\"text\":\"" + canary + "\n")
	b.awaitSeen()
	b.rotate(1)
	b.write(stamp + "stderr F {\"n\":1}\n")
	b.wantStored([]string{`{"n":1}`})
	b.stop()
	before, err := os.ReadFile(statePath(b.env.StateDir).String())
	if err != nil {
		t.Fatal(err)
	}
	b.write(stamp + "stdout F \"}\n" + stamp + "stdout F {\"n\":2}\n")
	b.start()
	want := []string{`{"n":1}`, `{"text":"` + canary + `"}`, `{"n":2}`}
	b.wantStored(want)
	b.stop()
	if err := os.WriteFile(statePath(b.env.StateDir).String(), before, 0o600); err != nil { // as if it had died before it was written
		t.Fatal(err)
	}
	if err := os.Remove(b.path + ".1"); err != nil {
		t.Fatal(err)
	}
	b.write(stamp + "stdout F {\"n\":3}\n")
	b.start()
	b.await("five records, or one that is taken for another", func() bool { return len(b.stored()) >= 5 || b.in.Known() > 0 })
	b.compare(append(want, `{"n":2}`, `{"n":3}`)) // rather twice than not at all
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
