package filesink

import (
	"errors"
	"io"
	"regexp"
	"strconv"
	"testing"

	"github.com/docket-export/docket/sinks/filesink/verify"
)

var seqPattern = regexp.MustCompile(`"seq":(\d+)`)

// listed returns the seqs of the records that whoever searches dir finds.
func listed(t *testing.T, dir string) (seqs []uint64, problems []string) {
	t.Helper()
	c, err := verify.Open(dir)
	if errors.Is(err, verify.ErrNoExport) {
		return nil, nil // nothing was written yet
	}
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for i := range c.Files {
		r, err := c.Reader(&c.Files[i], nil)
		if errors.Is(err, verify.ErrRemoved) {
			seqs = nil // those before it have been removed, too
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil && !(c.Files[i].Unfinished && errors.Is(err, io.ErrUnexpectedEOF)) {
			t.Fatal(err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		for _, found := range seqPattern.FindAllSubmatch(text, -1) {
			seq, err := strconv.ParseUint(string(found[1]), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			seqs = append(seqs, seq)
		}
	}
	return seqs, c.Problems
}

// checkListed wants every record from the first that is there to the last that was accepted,
// each once and in order.
func checkListed(t *testing.T, seqs []uint64, accepted uint64, when string) {
	t.Helper()
	if len(seqs) == 0 {
		if accepted > 0 {
			t.Fatalf("%s: got no record, want those up to %d", when, accepted)
		}
		return
	}
	for i, seq := range seqs {
		if seq != seqs[0]+uint64(i) {
			t.Fatalf("%s: got %v, want each once and in order", when, seqs)
		}
	}
	if last := seqs[len(seqs)-1]; last < accepted {
		t.Fatalf("%s: got records up to %d, want those up to %d", when, last, accepted)
	}
}

// Whatever the sink is at, an export shows each record once and in order, and is not broken.
func TestListedAtEveryStep(t *testing.T) {
	for _, compression := range []Compression{None, Gzip, Zstd} {
		dir := t.TempDir()
		accepted, steps := uint64(0), 0
		c := rotating(dir, 300)
		c.Compress, c.Retain.MaxFiles = compression, 3
		s := mustOpen(t, c, watched(dir, func(change, path string) error {
			steps++
			seqs, problems := listed(t, dir)
			checkListed(t, seqs, accepted, "before "+change+" of "+path)
			if len(problems) > 0 {
				t.Fatalf("before %s of %s: got %q", change, path, problems)
			}
			if b := breakIn(t, dir); b != nil {
				t.Fatalf("before %s of %s: got %+v", change, path, b)
			}
			return nil
		}))
		for n := range uint64(15) {
			mustSend(t, s, batch(queueA, 3*n+1, 3*n+3))
			accepted = 3*n + 3
		}
		if steps < 100 {
			t.Errorf("%s: got %d steps, want more", compression, steps)
		}
	}
}
