package tailsource

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/docket-export/docket/decision"
	"github.com/docket-export/docket/sources/feed"
	"github.com/docket-export/docket/sources/sourcetest"
	"github.com/docket-export/docket/sources/statefile"
	"github.com/docket-export/docket/sources/tailsource/formats"
)

// The queue says that it has lines of contents that were never read: they are somebody
// else's. The contents are stored whole, and the trouble is told.
func TestContentsThatWereNeverReadAreNotKnown(t *testing.T) {
	t.Parallel()
	b := newBench(t, formats.JSON)
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
	info, err := os.Stat(b.path)
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := bytes.Cut([]byte(lines(second...)), []byte("\n"))
	sum := sha256.Sum256(line)
	name := feed.Producer("log", string(formats.JSON), fmt.Sprintf("%d.%d", s.Generations+1, info.Sys().(*syscall.Stat_t).Ino), hex.EncodeToString(sum[:16]))
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
