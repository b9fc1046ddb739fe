package gatekeepersource

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/docket-export/docket/decision"
	"github.com/docket-export/docket/sources/feed"
	"github.com/docket-export/docket/sources/sourcetest"
)

// The queue says that it has more lines of a file than there are: they are somebody
// else's. The file is stored whole, once, and the trouble is told.
func TestAFileThatWasNeverReadIsNotKnown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := runAt(0)
	content := startLine(id) + "\n" + violationLine(id, 1) + "\n" + endLine(id) + "\n"
	w.put(fileOf(id)+".log", content)
	path := filepath.Join(w.path, fileOf(id)+".log")
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	channel, file := filepath.Split(fileOf(id))
	name := feed.Producer("gk", strings.TrimSuffix(channel, "/"), file, fmt.Sprint(info.Sys().(*syscall.Stat_t).Ino), fmt.Sprint(info.Size()))
	w.intake.Restore([]sourcetest.Line{{Producer: name, Number: 1000, Text: "{}"}})
	for _, life := range []string{"the first", "one after a crash"} {
		w.start()
		w.awaitRuns(1)
		w.awaitIdle()
		if text := w.source.(*source).Report().Trouble; life == "the first" && !strings.Contains(text, "another name") {
			t.Errorf("got trouble %q, want the name told", text)
		}
		if life == "the first" {
			w.crash()
			w.newIntake()
			if err := os.RemoveAll(w.state); err != nil { // so that it reads everything again
				t.Fatal(err)
			}
		} else {
			w.stop()
		}
	}
	got := strings.Join(w.texts(), "\n")
	for _, text := range []string{startLine(id), violationLine(id, 1), endLine(id), `"eventType":"` + decision.AuditRun, `"eventType":"` + decision.ProducerConflictEvent} {
		if n := strings.Count(got, text); n != 1 {
			t.Errorf("%s is stored %d times, want once, in:\n%s", text, n, got)
		}
	}
}
