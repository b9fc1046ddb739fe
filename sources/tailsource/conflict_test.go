package tailsource

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/docket-export/docket/decision"
	"github.com/docket-export/docket/sources/feed"
	"github.com/docket-export/docket/sources/sourcetest"
	"github.com/docket-export/docket/sources/statefile"
)

// The queue says that it has lines of contents that were never read: they are somebody
// else's. The contents are stored whole, and the trouble is told.
func TestContentsThatWereNeverReadAreNotKnown(t *testing.T) {
	t.Parallel()
	b := newBench(t, JSON)
	b.start()
	first := records("a", 3)
	b.write(lines(first...))
	b.wantStored(first)
	b.stop()
	s := &state{}
	if _, err := statefile.Load(statePath(b.env.StateDir), stateVersion, s); err != nil {
		t.Fatal(err)
	}
	b.rotate(1)
	second := records("b", 5)
	b.write(lines(second...))
	f, err := os.Open(b.path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := examine(f)
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := bytes.Cut([]byte(lines(second...)), []byte("\n"))
	name := feed.Producer("log", string(JSON), fmt.Sprintf("%d.%d", s.Generations+1, info.Inode), windowOf(line).Sum)
	b.in.Restore([]sourcetest.Line{{Producer: name, Number: 1000, Text: "{}"}})
	b.start()
	b.awaitTrouble("another name")
	b.await("the last line", func() bool { got := b.stored(); return got[len(got)-1] == second[4] })
	got := strings.Join(b.stored(), "\n")
	for _, text := range append(second, `"eventType":"`+decision.ProducerConflictEvent) {
		if n := strings.Count(got, text); n != 1 {
			t.Errorf("%s is stored %d times, want once", text, n)
		}
	}
}
