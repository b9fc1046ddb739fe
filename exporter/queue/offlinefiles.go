package queue

import (
	"errors"
	"fmt"
)

// checkCursors says what is wrong with the cursors file.
func (o *Offline) checkCursors() []Finding {
	const again = "every sink starts again at the first kept record, and delivers twice what it has delivered"
	switch err := o.cursorsErr; {
	case err == nil && o.badSlot >= 0:
		return []Finding{{
			Severity: Damage, Kind: DamagedSlot, File: cursorsFile,
			Offset: int64(o.badSlot) * slotSize, End: int64(o.badSlot+1) * slotSize,
			Text:   "one of the two slots is damaged, the other is used: if that is the older, sinks deliver again what they delivered last",
			Repair: fmt.Sprintf("copy the slot to %s/, write it anew from the other", quarantineDir),
		}}
	case err == nil:
		return nil
	case notExist(err):
		if len(o.segments) == 0 {
			return nil
		}
		return []Finding{{
			Severity: Damage, Kind: MissingCursors, File: cursorsFile,
			Text: "missing: " + again, Repair: "begin a new one",
		}}
	case errors.Is(err, errOtherQueue):
		return []Finding{{
			Severity: Damage, Kind: DamagedCursors, File: cursorsFile,
			Text:   fmt.Sprintf("%v, this is queue %s: %s", err, o.id, again),
			Repair: fmt.Sprintf("move it to %s/, begin a new one", quarantineDir),
		}}
	case errors.Is(err, errCursors):
		return []Finding{{
			Severity: Damage, Kind: DamagedCursors, File: cursorsFile,
			Text: "both slots are damaged: " + again, Repair: fmt.Sprintf("move it to %s/, begin a new one", quarantineDir),
		}}
	default:
		return []Finding{{
			Severity: Damage, Kind: UnreadableFile, File: cursorsFile,
			Text: fmt.Sprintf("cannot be read (%v): the exporter will not start", err),
		}}
	}
}

// checkPositions says what is wrong with the positions file. It is missing
// without fault in a queue that has not yet begun its second segment, and lost
// for certain in one that has removed the first: a checkpoint covered that.
func (o *Offline) checkPositions() []Finding {
	const (
		again = "the next start reads the whole log instead"
		gone  = "; of the records removed before, the counts per source are lost, and so are the numbers by which lines are known again that a producer sends twice"
	)
	hasRemoved := len(o.segments) > 0 && o.segments[0].FirstSeq > 1
	switch err := o.checkpointErr; {
	case err == nil && o.hasCheckpoint:
		return nil
	case err == nil && hasRemoved:
		return []Finding{{
			Severity: Damage, Kind: MissingPositions, File: positionsFile,
			Text: "missing: " + again + gone, Repair: "make a new one from the log",
		}}
	case err == nil && len(o.segments) > 1:
		return []Finding{{
			Severity: Note, Kind: MissingPositions, File: positionsFile,
			Text: "missing: " + again + ", and nothing is lost by it",
		}}
	case err == nil:
		return nil
	case errors.Is(err, errCheckpoint) || errors.Is(err, errOtherQueue):
		f := Finding{
			Severity: Damage, Kind: DamagedPositions, File: positionsFile,
			Text:   "damaged: " + again,
			Repair: fmt.Sprintf("move it to %s/, make a new one from the log", quarantineDir),
		}
		if errors.Is(err, errOtherQueue) {
			f.Text = fmt.Sprintf("%v, this is queue %s: %s", err, o.id, again)
		}
		if hasRemoved {
			f.Text += gone
		}
		return []Finding{f}
	default:
		return []Finding{{
			Severity: Damage, Kind: UnreadableFile, File: positionsFile,
			Text: fmt.Sprintf("cannot be read (%v): the exporter will not start", err),
		}}
	}
}
