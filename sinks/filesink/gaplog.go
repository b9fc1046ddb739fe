package filesink

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/docket-export/docket/sinks"
	"github.com/docket-export/docket/sinks/filesink/manifest"
)

// The gap log is the rest of the position file. It has the gaps since the last
// file was finished, and grows with the batches: a filter can leave a gap between
// any two records, more than a slot has room for. A slot names how many bytes of
// the log are accepted, and their checksum. Those bytes are synced before the slot
// that names them is written, so a slot whose bytes are not there is damage and
// no crash. A gap in the log, integers big-endian:
//
//	 0  first seq
//	 8  last seq
//	16  reason: its place among gapReasons
//
// A filter that passes nothing lets the log grow with each batch, and no file is finished.
// Once it is full, a new file takes its place in which gaps that touch are one.
const (
	gapSize    = 17
	fullGapLog = 4 * gapSize * manifest.MaxRanges
	// mostGapLog is far beyond it: docket does not read what it cannot have written.
	mostGapLog = 16 * fullGapLog
)

// gapReasons are the reasons by the number that stands in a gap log.
var gapReasons = []sinks.GapReason{manifest.Unknown, sinks.Filtered, sinks.DeadLettered, sinks.Dropped, sinks.Corrupt}

func appendGap(log []byte, g sinks.Gap) ([]byte, error) {
	reason := slices.Index(gapReasons, g.Reason)
	if reason < 0 {
		return nil, fmt.Errorf("gap of seqs %d to %d: no such reason: %q", g.From, g.To, g.Reason)
	}
	log = binary.BigEndian.AppendUint64(log, g.From)
	log = binary.BigEndian.AppendUint64(log, g.To)
	return append(log, byte(reason)), nil
}

// decodeGaps reads a gap log. Gaps of one reason that touch become one.
func decodeGaps(log []byte) (gaps manifest.Gaps, err error) {
	for ; len(log) >= gapSize; log = log[gapSize:] {
		reason := int(log[16])
		if reason >= len(gapReasons) {
			return manifest.Gaps{}, fmt.Errorf("gap log: no reason has the number %d", reason)
		}
		from, to := binary.BigEndian.Uint64(log), binary.BigEndian.Uint64(log[8:])
		if err := gaps.Add(from, to, gapReasons[reason]); err != nil {
			return manifest.Gaps{}, fmt.Errorf("gap log: %w", err)
		}
	}
	if len(log) > 0 {
		return manifest.Gaps{}, fmt.Errorf("gap log: %d bytes behind the last gap", len(log))
	}
	return gaps, nil
}

// encodeGaps is a gap log of these gaps.
func encodeGaps(gaps manifest.Gaps) (log []byte, err error) {
	for g := range gaps.All() {
		if log, err = appendGap(log, g); err != nil {
			return nil, err
		}
	}
	return log, nil
}
