package inspect

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/docket-export/docket/exporter/queue/state"
)

// checkCursors says what is wrong with the cursors file.
func (o *Queue) checkCursors() []Finding {
	const again = "every sink starts again at the first kept record, and redelivers records"
	switch err := o.found.CursorsErr; {
	case err == nil && o.found.Cursors.DamagedEnd > 0:
		return []Finding{{
			Severity: Note, Kind: damagedSlot, File: state.CursorsFile,
			Offset: o.found.Cursors.Damaged, End: o.found.Cursors.DamagedEnd,
			Text: "one of the two slots is damaged, as a crash leaves it: the other is used, and if it is older, sinks redeliver their last records",
		}}
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		if len(o.found.Segments) == 0 {
			return nil
		}
		return []Finding{{
			Severity: Damage, Kind: missingCursors, File: state.CursorsFile,
			Text: "missing: " + again,
		}}
	case errors.Is(err, state.ErrOtherQueue):
		return []Finding{{
			Severity: Damage, Kind: damagedCursors, File: state.CursorsFile,
			Text: fmt.Sprintf("%v, this is queue %s: %s", err, o.found.Queue, again),
		}}
	case errors.Is(err, state.ErrCursors):
		return []Finding{{
			Severity: Damage, Kind: damagedCursors, File: state.CursorsFile,
			Text: "both slots are damaged: " + again,
		}}
	default:
		return []Finding{{
			Severity: Damage, Kind: UnreadableFile, File: state.CursorsFile,
			Text: fmt.Sprintf("cannot be read (%v): the exporter will not start", err),
		}}
	}
}

// checkPositions says what is wrong with the positions file. It is missing
// without fault in a queue that has not yet begun its second segment, and lost
// for certain in one that has removed the first: a checkpoint covered that.
func (o *Queue) checkPositions() []Finding {
	const (
		again = "the next start reads the whole log instead"
		gone  = "; lost for removed records: the counts per source, and the numbers that recognise duplicates"
	)
	hasRemoved := len(o.found.Segments) > 0 && o.found.Segments[0].FirstSeq > 1
	switch err := o.found.CheckpointErr; {
	case err == nil && o.found.HasCheckpoint:
		return nil
	case err == nil && hasRemoved:
		return []Finding{{
			Severity: Damage, Kind: missingPositions, File: state.PositionsFile,
			Text: "missing: " + again + gone,
		}}
	case err == nil && len(o.found.Segments) > 1:
		return []Finding{{
			Severity: Note, Kind: missingPositions, File: state.PositionsFile,
			Text: "missing: " + again + ", and nothing is lost",
		}}
	case err == nil:
		return nil
	case errors.Is(err, state.ErrPositions) || errors.Is(err, state.ErrOtherQueue):
		f := Finding{
			Severity: Damage, Kind: damagedPositions, File: state.PositionsFile,
			Text: "damaged: " + again,
		}
		if errors.Is(err, state.ErrOtherQueue) {
			f.Text = fmt.Sprintf("%v, this is queue %s: %s", err, o.found.Queue, again)
		}
		if hasRemoved {
			f.Text += gone
		}
		return []Finding{f}
	default:
		return []Finding{{
			Severity: Damage, Kind: UnreadableFile, File: state.PositionsFile,
			Text: fmt.Sprintf("cannot be read (%v): the exporter will not start", err),
		}}
	}
}
