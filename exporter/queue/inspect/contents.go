package inspect

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/docket-export/docket/exporter/queue/segment"
	"github.com/docket-export/docket/internal/disk"
)

// Contents is what a queue holds, in the form of docket queue ls -o json.
type Contents struct {
	ID         string                     `json:"id"`
	Directory  string                     `json:"directory"`
	FirstSeq   uint64                     `json:"firstSeq"` // of the first kept record; LastSeq+1 when none is
	LastSeq    uint64                     `json:"lastSeq"`
	Segments   []SegmentContents          `json:"segments"`
	Sinks      map[string]AccountDocument `json:"sinks"`
	Positions  *PositionsDocument         `json:"positions"`  // nil when there is no usable positions file
	Quarantine []StoredFile               `json:"quarantine"` // what could not be read
}

// SegmentContents is what one segment holds, according to its neighbours and
// its first and last frames. Only Check finds damage between them.
type SegmentContents struct {
	Name     string `json:"name"`
	Epoch    uint64 `json:"epoch"`
	FirstSeq uint64 `json:"firstSeq"`
	LastSeq  uint64 `json:"lastSeq"` // FirstSeq-1 when it holds frames without records only
	Records  uint64 `json:"records"` // that it was given
	Bytes    int64  `json:"bytes"`   // up to the end of its last frame
	Size     int64  `json:"fileSize"`
	// Oldest and Newest are when its first and its last frame were received;
	// zero when it has none.
	Oldest time.Time `json:"oldest,omitzero"`
	Newest time.Time `json:"newest,omitzero"`
	Error  string    `json:"error,omitempty"` // why it cannot be read
}

// Contents says what the queue holds. It reads a little of each segment and all
// of the last one.
func (o *Queue) Contents(ctx context.Context) (Contents, error) {
	c := Contents{ID: o.ID(), Directory: o.dir, Segments: []SegmentContents{}, Sinks: map[string]AccountDocument{}, Quarantine: o.quarantine}
	if o.found.KnownDurable > 0 {
		c.LastSeq = o.found.KnownDurable - 1
	}
	for _, s := range o.found.Segments {
		found, gone, err := o.segmentContents(ctx, s)
		if err != nil {
			return Contents{}, err
		}
		if errors.Is(gone, fs.ErrNotExist) {
			continue // it was removed meanwhile
		}
		c.Segments = append(c.Segments, found)
		c.LastSeq = max(c.LastSeq, found.LastSeq)
	}
	c.FirstSeq = c.LastSeq + 1
	if len(c.Segments) > 0 {
		c.FirstSeq = c.Segments[0].FirstSeq
	}
	for name, a := range o.found.Accounts {
		c.Sinks[name] = accountToJSON(a, a.Pending(max(c.LastSeq+1, a.Next)-1))
	}
	if p := o.found.Checkpoint; o.found.HasCheckpoint {
		c.Positions = &PositionsDocument{LastSeq: p.NextSeq - 1, Producers: o.found.Known, Sources: p.Sources, Lost: rangesJSON(p.Lost...)}
	}
	return c, nil
}

// segmentContents fails only when ctx is done. unreadable is why the segment cannot be read.
func (o *Queue) segmentContents(ctx context.Context, s *segment.Stored) (c SegmentContents, unreadable, err error) {
	c = SegmentContents{Name: s.String(), Epoch: s.Epoch, FirstSeq: s.FirstSeq, LastSeq: s.FirstSeq - 1, Size: s.Size}
	note := func(f *segment.Frame) {
		if c.Oldest.IsZero() {
			c.Oldest = time.Unix(0, f.Received).UTC()
		}
		c.Newest, c.LastSeq = time.Unix(0, f.Received).UTC(), f.End()-1
	}
	switch {
	case s.OpenErr != nil:
		unreadable = s.OpenErr
	case s.Exact:
		c.Bytes = s.End
		var file disk.File
		if file, unreadable = o.fsys.Open(o.path(s.String())); unreadable == nil {
			defer file.Close()
			unreadable = s.Ends(file, note)
		}
	default:
		w := walk{o: o, ctx: ctx}
		w.visit = func(_, _ *segment.Stored, it *segment.Item) error {
			if it.Kind == segment.IsFrame {
				note(&it.Frame)
			}
			return nil
		}
		w.unreadable = func(_ *segment.Stored, _ int64, err error) error {
			unreadable = err
			return nil
		}
		var next uint64
		next, c.Bytes, err = w.segment(s, nil, 0)
		if unreadable == nil {
			c.LastSeq = max(c.LastSeq, next-1) // what it ends with may be damaged
		}
	}
	if unreadable != nil {
		c.Error = unreadable.Error()
	}
	c.Records = c.LastSeq + 1 - c.FirstSeq
	return c, unreadable, cmp.Or(err, ctx.Err())
}
