package gatekeepersource

import (
	"fmt"
	"strings"
	"testing"

	"github.com/docket-export/docket/sources/gatekeepersource/runs"
	"github.com/docket-export/docket/sources/sourcetest"
)

// mixedRun is a run with lines of every kind: of them all, those that are sent.
func mixedRun(id string) (content string, sent []sourcetest.Line) {
	var b strings.Builder
	b.WriteString("\n" + startLine(id) + "\r\n")
	sent = append(sent, sourcetest.Line{Text: startLine(id)})
	for n := range 60 {
		text := violationLine(id, n)
		l := sourcetest.Line{Text: text}
		switch n % 10 {
		case 3:
			text = " \t\r\n" + text // a blank line before it
		case 5:
			text = strings.Repeat("x", n)
			l = sourcetest.Line{Text: text, Refused: "InvalidJSON"}
		case 7:
			text = "{" + strings.Repeat("y", maxRecord+n)
			l = sourcetest.Line{Text: text[:maxPrefix], Refused: "TooLarge"}
		}
		b.WriteString(text + "\n")
		sent = append(sent, l)
	}
	b.WriteString(endLine(id))
	return b.String(), append(sent, sourcetest.Line{Text: endLine(id)})
}

// The order and the numbers of lines are those of the file, however it is cut in pieces,
// and although the queue refuses some of them in between.
func TestPieces(t *testing.T) {
	t.Parallel()
	content, want := mixedRun(runAt(0))
	for _, size := range []int{1, 300, 1000, 5000, runs.PieceBytes} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.pieceBytes = size
			w.put(fileOf(runAt(0))+".log", content)
			full := false
			w.intake.OnSettle = func([]sourcetest.Line) {
				if !full { // for what comes after the first
					full = true
					w.intake.Fill()
				}
			}
			w.start()
			w.awaitLines(1)
			w.intake.Drain()
			w.awaitRuns(1)
			w.awaitIdle()
			w.stop()
			got := w.intake.Lines()
			if len(got) != len(want)+1 {
				t.Fatalf("got %d lines, want %d and a run record", len(got), len(want))
			}
			for i, want := range want {
				want.Producer, want.Number = got[0].Producer, uint64(i+1)
				if got[i] != want {
					t.Fatalf("got line %d as %.200v, want %.200v", i+1, got[i], want)
				}
			}
			if w.intake.Known() != 0 {
				t.Errorf("%d lines were sent again that the queue had taken", w.intake.Known())
			}
		})
	}
}
