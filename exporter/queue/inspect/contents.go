package inspect

import (
	"context"
	"errors"
	"time"

	"github.com/docket-export/docket/exporter/queue/segment"
	"github.com/docket-export/docket/exporter/queue/state"
)

// Contents is what a queue holds.
type Contents struct {
	ID       string
	FirstSeq uint64 // of the first kept record; LastSeq+1 when none is
	LastSeq  uint64
	Segments []SegmentContents
	Spares   []StoredFile // segments that wait for their next use
	Cursors  map[string]state.Account
	// Checkpoint is nil when there is no usable positions file.
	Checkpoint *state.Checkpoint
	Producers  int          // that are remembered
	Quarantine []StoredFile // what could not be read
}

// SegmentContents is what one segment holds, according to its neighbours and
// its first and last frames. Only Check finds damage between them.
type SegmentContents struct {
	Name     string
	Epoch    uint64
	FirstSeq uint64
	LastSeq  uint64 // FirstSeq-1 when it holds frames without records only
	Bytes    int64  // up to the end of its last frame
	Size     int64  // of the file
	// Oldest and Newest are when its first and its last frame were received;
	// zero when it has none.
	Oldest, Newest time.Time
	// Err is why it cannot be read; nil when it can be.
	Err error
}

// Records is how many records the segment was given.
func (s SegmentContents) Records() uint64 { return s.LastSeq + 1 - s.FirstSeq }

// Contents says what the queue holds. It reads a little of each segment and all
// of the last one.
func (o *Queue) Contents(ctx context.Context) (Contents, error) {
	c := Contents{ID: o.ID(), Spares: o.spares, Cursors: o.found.Accounts, Producers: o.found.Known, Quarantine: o.quarantine}
	if o.found.HasCheckpoint {
		c.Checkpoint = &o.found.Checkpoint
	}
	if o.found.KnownDurable > 0 {
		c.LastSeq = o.found.KnownDurable - 1
	}
	for _, s := range o.found.Segments {
		found, err := o.segmentContents(ctx, s)
		if err != nil {
			return Contents{}, err
		}
		if errors.Is(found.Err, segment.ErrGone) {
			continue
		}
		c.Segments = append(c.Segments, found)
		c.LastSeq = max(c.LastSeq, found.LastSeq)
	}
	c.FirstSeq = c.LastSeq + 1
	if len(c.Segments) > 0 {
		c.FirstSeq = c.Segments[0].FirstSeq
	}
	return c, nil
}

// segmentContents fails only when ctx is done: what cannot be read stands in the
// result.
func (o *Queue) segmentContents(ctx context.Context, s *segment.Stored) (SegmentContents, error) {
	c := SegmentContents{
		Name: s.String(), Epoch: s.Epoch, FirstSeq: s.FirstSeq, LastSeq: s.FirstSeq - 1, Size: s.Size, Err: s.OpenErr,
	}
	if s.OpenErr != nil {
		return c, ctx.Err()
	}
	note := func(f *segment.Frame) {
		if c.Oldest.IsZero() {
			c.Oldest = time.Unix(0, f.Received).UTC()
		}
		c.Newest, c.LastSeq = time.Unix(0, f.Received).UTC(), f.End()-1
	}
	if s.Exact {
		c.Bytes = s.End
		file, err := o.fsys.Open(o.path(s.String()))
		if err == nil {
			defer file.Close()
			err = s.Ends(file, note)
		}
		if errors.Is(err, errBegun) {
			return c, err
		}
		c.Err = err
		return c, ctx.Err()
	}
	w := walk{o: o, ctx: ctx}
	w.visit = func(_, _ *segment.Stored, it *segment.Item) error {
		if it.Kind == segment.IsFrame {
			note(&it.Frame)
		}
		return nil
	}
	w.unreadable = func(_ *segment.Stored, _ int64, err error) error {
		c.Err = err
		return nil
	}
	next, end, err := w.segment(s, nil, 0)
	c.Bytes = end
	if c.Err == nil {
		c.LastSeq = max(c.LastSeq, next-1) // what it ends with may be damaged
	}
	return c, err
}
