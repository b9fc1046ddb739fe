package inspect

import (
	"time"

	"github.com/docket-export/docket/exporter/queue/segment"
	"github.com/docket-export/docket/exporter/queue/state"
)

// Document is Contents in the form of docket queue ls -o json.
type Document struct {
	ID         string                     `json:"id"`
	Directory  string                     `json:"directory"`
	FirstSeq   uint64                     `json:"firstSeq"`
	LastSeq    uint64                     `json:"lastSeq"`
	Segments   []SegmentDocument          `json:"segments"`
	Spares     []FileDocument             `json:"spares"`
	Sinks      map[string]AccountDocument `json:"sinks"`
	Positions  *PositionsDocument         `json:"positions"`
	Quarantine []FileDocument             `json:"quarantine"`
}

// SegmentDocument is SegmentContents in a Document.
type SegmentDocument struct {
	Name     string    `json:"name"`
	Epoch    uint64    `json:"epoch"`
	FirstSeq uint64    `json:"firstSeq"`
	LastSeq  uint64    `json:"lastSeq"`
	Records  uint64    `json:"records"`
	Bytes    int64     `json:"bytes"`
	FileSize int64     `json:"fileSize"`
	Oldest   time.Time `json:"oldest,omitzero"`
	Newest   time.Time `json:"newest,omitzero"`
	Error    string    `json:"error,omitempty"`
}

// FileDocument is a StoredFile in a Document.
type FileDocument struct {
	Name string `json:"name"`
	Size int64  `json:"size"`
}

// AccountDocument is the account of a sink in a Document.
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

// PositionsDocument is what the log adds up to, in a Document.
type PositionsDocument struct {
	LastSeq   uint64                        `json:"lastSeq"`
	Producers int                           `json:"producers"`
	Sources   map[string]*state.SourceTally `json:"sources"`
	Lost      []SeqRangeDocument            `json:"lost"`
}

// Document is c as a document; dir is the directory of the queue.
func (c Contents) Document(dir string) Document {
	j := Document{
		ID: c.ID, Directory: dir, FirstSeq: c.FirstSeq, LastSeq: c.LastSeq,
		Segments: []SegmentDocument{}, Spares: filesToJSON(c.Spares), Quarantine: filesToJSON(c.Quarantine),
		Sinks: map[string]AccountDocument{},
	}
	for _, s := range c.Segments {
		found := SegmentDocument{
			Name: s.Name, Epoch: s.Epoch, FirstSeq: s.FirstSeq, LastSeq: s.LastSeq, Records: s.Records(), Bytes: s.Bytes, FileSize: s.Size,
			Oldest: s.Oldest, Newest: s.Newest,
		}
		if s.Err != nil {
			found.Error = s.Err.Error()
		}
		j.Segments = append(j.Segments, found)
	}
	for name, a := range c.Cursors {
		j.Sinks[name] = accountToJSON(a, c.Pending(a))
	}
	if p := c.Checkpoint; p != nil {
		j.Positions = &PositionsDocument{LastSeq: p.NextSeq - 1, Producers: c.Producers, Sources: p.Sources, Lost: rangesJSON(p.Lost...)}
	}
	return j
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

func filesToJSON(files []StoredFile) []FileDocument {
	list := []FileDocument{}
	for _, f := range files {
		list = append(list, FileDocument(f))
	}
	return list
}

// Pending is how many records a sink has yet to get.
func (c Contents) Pending(a state.Account) uint64 {
	return a.Pending(max(c.LastSeq+1, a.Next) - 1)
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
	Repair   string             `json:"repair,omitempty"`
}

// Document is f in the form of docket queue check -o json.
func (f Finding) Document() FindingDocument {
	return FindingDocument{
		Severity: f.Severity, Kind: f.Kind, File: f.File, Offset: f.Offset, End: f.End,
		Lost: rangesJSON(f.Lost), Text: f.Text, Repair: f.Repair,
	}
}

// Finding is the inverse of Finding.Document.
func (d FindingDocument) Finding() Finding {
	f := Finding{Severity: d.Severity, Kind: d.Kind, File: d.File, Offset: d.Offset, End: d.End, Text: d.Text, Repair: d.Repair}
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
