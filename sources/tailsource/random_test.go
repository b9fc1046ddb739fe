package tailsource

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/docket-export/docket/sources/tailsource/formats"
)

// TestAnyInterleaving: whatever a log, its rotation, docket and the queue do, one after
// the other, each line is stored once. What is read when is for the scheduler to say.
func TestAnyInterleaving(t *testing.T) {
	for n := range 8 / few(2) {
		seed := rand.Uint64()
		if testing.Short() {
			seed = uint64(n) // the gate decides nothing by chance
		}
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			interleave(t, rand.New(rand.NewPCG(seed, 0)))
		})
	}
}

func interleave(t *testing.T, dice *rand.Rand) {
	b := newBench(t, formats.JSON)
	b.start()
	banner := dice.IntN(2) == 0 // each file begins with the same line, which is no record
	copies := dice.IntN(3) == 0 // rotation copies, and truncates
	var want, story []string
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("banner %v, copies %v, steps %s", banner, copies, strings.Join(story, ""))
		}
	})
	begin := func() {
		b.write("")
		if banner {
			b.write("--- log opened, this line is the same in every file of it, whatever follows ---\n")
		}
	}
	begin()
	for step := range 60 {
		choice := dice.IntN(10)
		story = append(story, fmt.Sprint(choice))
		switch choice {
		case 0, 1, 2, 3, 4, 5:
			b.upset(choice)
		case 6:
			if copies {
				b.in.Drain() // what is not read by then is lost
				b.in.Release()
				b.await("all records", func() bool { return len(b.stored()) >= len(want) })
				b.copyTruncate(fmt.Sprintf("%s.%d", b.path, step))
			} else {
				b.rotate(99)
			}
			begin()
		default:
			more := records(fmt.Sprint(step), 1+dice.IntN(20))
			b.write(lines(more...))
			want = append(want, more...)
		}
	}
	b.in.Drain()
	b.in.Release()
	b.await("all records", func() bool { return len(b.stored()) >= len(want) })
	got := b.stored()
	slices.Sort(got) // a file that grows after its end was read is read on later
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got %d records, want each of %d once", len(got), len(want))
	}
}

// upset does one of six things to docket or its queue.
func (b *bench) upset(choice int) {
	b.t.Helper()
	switch choice {
	case 0:
		b.stop()
		b.start()
	case 1:
		b.crash()
		b.start()
	case 2:
		b.in.Fill()
	case 3:
		b.in.Drain()
	case 4:
		b.in.Hold()
	case 5:
		b.in.Release()
	}
}

// awaitSeen waits until the source has seen all that is in the file.
func (b *bench) awaitSeen() {
	b.t.Helper()
	info, err := os.Stat(b.path)
	if err != nil {
		b.t.Fatal(err)
	}
	b.await("the file as it is", func() bool {
		f := b.source.follower.Load()
		if f == nil {
			return false
		}
		_, latest := f.Held()
		return latest >= info.Size()
	})
}
