package queue

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/docket-export/docket/exporter/queue/inspect"
	"github.com/docket-export/docket/exporter/queue/segment"
	"github.com/docket-export/docket/exporter/queue/state"
	"github.com/docket-export/docket/internal/disk"
)

// layCheckpoint writes a positions file that covers the segment of epoch up to end.
func layCheckpoint(t *testing.T, dir string, id uuid.UUID, epoch uint64, end int64, nextSeq uint64) {
	t.Helper()
	const received = 1e18
	s := state.New(0)
	s.Add(&segment.Frame{Source: []byte("test"), Producer: []byte("p"), Position: nextSeq - 1, Count: int(nextSeq - 1), Received: received}, nextSeq-1)
	c := s.Checkpoint(time.Unix(0, received))
	c.Queue, c.Epoch, c.End, c.NextSeq, c.Written = id, epoch, end, nextSeq, 0
	must(t, state.WriteCheckpoint(disk.OS(""), dir, *c))
}

// layCursors writes a cursors file in which a sink has passed everything before next.
func layCursors(t *testing.T, dir string, id uuid.UUID, next uint64) {
	t.Helper()
	f, err := state.CreateCursorFile(disk.OS(""), dir, id, map[string]Account{"s": {Next: next, Delivered: next - 1}})
	must(t, err)
	must(t, f.File.Close())
}

// checkVerdict is what docket queue check and docket queue ls say.
func checkVerdict(t *testing.T, dir string) string {
	t.Helper()
	o, err := inspect.Open(dir, nil)
	if err != nil {
		return "check: " + err.Error()
	}
	defer o.Close()
	var said []string
	sum, err := o.Check(t.Context(), func(f inspect.Finding) error {
		s := fmt.Sprintf("%s %s", f.Severity, f.Kind)
		if f.End > f.Offset || f.Offset > 0 {
			s += fmt.Sprintf(" %d-%d", f.Offset, f.End)
		}
		if f.Lost.Size() > 0 {
			s += " lost " + ranges([]segment.SeqRange{f.Lost})
		}
		said = append(said, s)
		return nil
	})
	must(t, err)
	contents, err := o.Contents(t.Context())
	must(t, err)
	return fmt.Sprintf("check: %d records, last %d, [%s]", sum.Records, contents.LastSeq, strings.Join(said, "; "))
}
