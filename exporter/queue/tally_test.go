package queue

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/docket-export/docket/exporter/queue/segment"
)

// manyTallies are as many as a frame takes, with the longest names.
func manyTallies(count uint64) (tallies []Tally) {
	for n := range maxTallies {
		tallies = append(tallies, Tally{Name: strings.Repeat("x", maxName-2) + strconv.Itoa(10+n), Count: count})
	}
	return tallies
}

func TestTalliesComeBackAsTheyWere(t *testing.T) {
	for name, c := range map[string]Chunk{
		"none":         {},
		"one of each":  {Refused: []Tally{{Name: "InvalidJSON", Count: 1}}, Lost: []Tally{{Name: "deny", Count: 2}}},
		"lost alone":   {Lost: []Tally{{Name: "deny", Count: 5e9}, {Name: "allow", Count: MaxLost}}},
		"no names":     {Refused: []Tally{{Name: "", Count: math.MaxUint32}}, Lost: []Tally{{Name: "", Count: 0}}},
		"all there is": {Source: strings.Repeat("s", maxName), Identity: strings.Repeat("i", maxName), Producer: strings.Repeat("p", maxName), Refused: manyTallies(math.MaxUint32), Lost: manyTallies(MaxLost)},
	} {
		t.Run(name, func(t *testing.T) {
			must(t, c.Check())
			b := encode(&c)
			segment.Place(b, 1, segment.HeaderSize, 1)
			f, err := segment.ParseHeader(b)
			must(t, err)
			var refused, lost []Tally
			f.EachTally(
				func(name []byte, n uint64) { refused = append(refused, Tally{Name: string(name), Count: n}) },
				func(name []byte, n uint64) { lost = append(lost, Tally{Name: string(name), Count: n}) })
			if !slices.Equal(refused, c.Refused) || !slices.Equal(lost, c.Lost) {
				t.Errorf("got refused %v, lost %v, want %v, %v", refused, lost, c.Refused, c.Lost)
			}
			if f.Size() != len(b) || string(f.Producer) != c.Producer || string(f.Identity) != c.Identity || string(f.Source) != c.Source {
				t.Errorf("got a frame of %d bytes of %q, want %d of %q", f.Size(), f.Producer, len(b), c.Producer)
			}
		})
	}
}

func TestTalliesThatFitIntoNoFrame(t *testing.T) {
	q := open(t, Options{Directory: t.TempDir()})
	for name, c := range map[string]Chunk{
		"too many refused": {Refused: append(manyTallies(1), Tally{Name: "more", Count: 1})},
		"too many lost":    {Lost: append(manyTallies(1), Tally{Name: "more", Count: 1})},
		"refused name":     {Refused: []Tally{{Name: strings.Repeat("x", maxName+1), Count: 1}}},
		"lost name":        {Lost: []Tally{{Name: strings.Repeat("x", maxName+1), Count: 1}}},
		"refused count":    {Refused: []Tally{{Name: "InvalidJSON", Count: math.MaxUint32 + 1}}},
		"lost count":       {Lost: []Tally{{Name: "deny", Count: MaxLost + 1}}},
	} {
		if err := q.Append(t.Context(), &c, nil); err == nil || !strings.Contains(err.Error(), "allowed") {
			t.Errorf("%s: got %v, want an error that says what is allowed", name, err)
		}
	}
}

// Received is what was read, not the sum of what became of it: a line that got no fate
// shows, after a restart too. Frames that were written after the checkpoint have what they
// decided.
func TestReceivedIsNotASum(t *testing.T) {
	opts := Options{Directory: t.TempDir()}
	q := open(t, opts)
	lossy := chunk("{}", "{}")
	lossy.Lines, lossy.Duplicates, lossy.Refused = 10, 3, []Tally{{Name: "InvalidJSON", Count: 4}}
	store(t, q, lossy) // 10 read, 9 decided
	check := func(when string, received, stored uint64) {
		t.Helper()
		if got := q.Stats().Sources["test"]; got.Received != received || got.Stored != stored {
			t.Errorf("%s: got %d received and %d stored, want %d and %d", when, got.Received, got.Stored, received, stored)
		}
	}
	check("after the commit", 10, 2)
	killed(t, q)
	q = open(t, opts)
	check("after a kill", 9, 2)
	store(t, q, lossy)
	closeQueue(t, q)
	q = open(t, opts)
	closeQueue(t, q)
	q = open(t, opts)
	check("after two restarts", 19, 4)
}

// Records whose frames are damaged beyond reading have no source any more. They were
// received all the same.
func TestRecordsWithoutASource(t *testing.T) {
	opts := Options{Directory: t.TempDir()}
	q := open(t, opts)
	for range 3 {
		store(t, q, chunk("{}"))
	}
	killed(t, q)
	seg := segmentFiles(t, opts.Directory)[0]
	flip(t, seg, offsets(t, seg)[1]+frameSeqAt)
	q = open(t, opts)
	s := q.Stats()
	if got := s.Sources["test"]; s.LastSeq != 3 || got.Stored != 2 || got.Received != 2 || s.Unattributed != 1 {
		t.Errorf("got last seq %d, %d stored, %d received, %d unattributed; want 3, 2, 2 and 1", s.LastSeq, got.Stored, got.Received, s.Unattributed)
	}
}
