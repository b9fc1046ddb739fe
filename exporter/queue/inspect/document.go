package inspect

import (
	"time"

	"github.com/docket-export/docket/exporter/queue/segment"
	"github.com/docket-export/docket/exporter/queue/state"
)

// AccountDocument is the account of a sink in Contents.
type AccountDocument struct {
	Next         uint64 `json:"next"`
	Pending      uint64 `json:"pending"`
	Delivered    uint64 `json:"delivered"`
	Filtered     uint64 `json:"filtered"`
	DeadLettered uint64 `json:"deadLettered"`
	Dropped      uint64 `json:"dropped"`
	Corrupt      uint64 `json:"corrupt"`
	ReplayTo     uint64 `json:"replayTo,omitempty"` // while a replay is under way
	// Replayed is when the last replay was asked for; before the first one, when the sink was new.
	Replayed time.Time `json:"replayed,omitzero"`
}

// PositionsDocument is what the log adds up to, in Contents.
type PositionsDocument struct {
	LastSeq   uint64                        `json:"lastSeq"`
	Producers int                           `json:"producers"`
	Sources   map[string]*state.SourceTally `json:"sources"`
	Lost      []SeqRangeDocument            `json:"lost"`
}

func accountToJSON(a state.Account, pending uint64) AccountDocument {
	j := AccountDocument{
		Next: a.Next, Pending: pending, Delivered: a.Delivered, Filtered: a.Filtered,
		DeadLettered: a.DeadLettered, Dropped: a.Dropped, Corrupt: a.Corrupt,
	}
	if a.ReplayTo > a.Next {
		j.ReplayTo = a.ReplayTo
	}
	if a.Replayed > 0 {
		j.Replayed = time.Unix(0, a.Replayed).UTC()
	}
	return j
}

// FindingDocument is a finding in JSON. Offset and End are absent when it is about a file
// as a whole.
type FindingDocument struct {
	Severity Severity           `json:"severity"`
	Kind     string             `json:"kind"`
	File     string             `json:"file,omitempty"`
	Offset   int64              `json:"offset,omitempty"`
	End      int64              `json:"end,omitempty"`
	Lost     []SeqRangeDocument `json:"lost"`
	Text     string             `json:"text"`
}

// Document is f in the form of docket queue check -o json.
func (f Finding) Document() FindingDocument {
	return FindingDocument{
		Severity: f.Severity, Kind: f.Kind, File: f.File, Offset: f.Offset, End: f.End,
		Lost: rangesJSON(f.Lost), Text: f.Text,
	}
}

// Finding is the inverse of Finding.Document.
func (d FindingDocument) Finding() Finding {
	f := Finding{Severity: d.Severity, Kind: d.Kind, File: d.File, Offset: d.Offset, End: d.End, Text: d.Text}
	for _, r := range d.Lost {
		f.Lost = segment.SeqRange{From: r.FirstSeq, To: r.LastSeq + 1}
	}
	return f
}

// SeqRangeDocument is a range of records in JSON; both ends belong to it.
type SeqRangeDocument struct {
	FirstSeq uint64 `json:"firstSeq"`
	LastSeq  uint64 `json:"lastSeq"`
}

// rangesJSON leaves out the empty ones, and is [] rather than null.
func rangesJSON(ranges ...segment.SeqRange) []SeqRangeDocument {
	list := []SeqRangeDocument{}
	for _, r := range ranges {
		if r.To > r.From {
			list = append(list, SeqRangeDocument{r.From, r.To - 1})
		}
	}
	return list
}
