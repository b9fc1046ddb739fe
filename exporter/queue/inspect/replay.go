package inspect

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/docket-export/docket/exporter/queue/segment"
	"github.com/docket-export/docket/exporter/queue/state"
)

// Replay is a sink set back to a record that it has done.
type Replay struct {
	Sink    string
	Records segment.SeqRange // what is delivered again, lost ones included
	Lost    uint64           // how many of them damage has taken
	// Oldest and Newest are when the first and the last of them were received.
	Oldest, Newest time.Time
	// Before and After are the sink's account.
	Before, After state.Account
}

// ReplayFrom is where a replay begins: at a record or, where Seq is 0, at the first one that
// was received at Time or later.
type ReplayFrom struct {
	Seq  uint64    `json:"seq,omitempty"`
	Time time.Time `json:"time,omitzero"`
}

// Plan is PlanReplay from a number or a time.
func (o *Queue) Plan(ctx context.Context, sink string, from ReplayFrom, count func(segment.SeqRange) uint64) (Replay, error) {
	if from.Seq == 0 {
		var err error
		if from.Seq, err = o.ReplayAt(ctx, sink, from.Time); err != nil {
			return Replay{}, err
		}
	}
	return o.PlanReplay(ctx, sink, from.Seq, count)
}

// ReplayDocument is the form of docket replay -o json.
type ReplayDocument struct {
	Sink     string     `json:"sink"`
	FirstSeq uint64     `json:"firstSeq"`
	LastSeq  uint64     `json:"lastSeq"`
	Records  uint64     `json:"records"`
	Lost     uint64     `json:"lost"`
	Oldest   *time.Time `json:"oldest,omitempty"`
	Newest   *time.Time `json:"newest,omitempty"`
	Done     bool       `json:"done"` // false after a dry run
}

// Document is r as a document.
func (r Replay) Document(done bool) ReplayDocument {
	d := ReplayDocument{
		Sink: r.Sink, FirstSeq: r.Records.From, LastSeq: r.Records.To - 1, Records: r.Count(), Lost: r.Lost, Done: done,
	}
	if !r.Oldest.IsZero() {
		d.Oldest, d.Newest = &r.Oldest, &r.Newest
	}
	return d
}

// Count is how many records are delivered again.
func (r Replay) Count() uint64 { return r.Records.Size() - r.Lost }

// notKept says that a replay was to begin before what the queue keeps: from record first
// on, received at that time, it can. why is what is before it.
func notKept(first uint64, received time.Time, why string) error {
	return fmt.Errorf("%s: a replay can begin at record %d, received %s", why, first, received.Format(time.RFC3339))
}

// PlanReplay returns what setting sink back to record from does, and changes nothing. count
// returns how many records of a range have dead letters: they
// will no longer be before the sink's position. It fails when from is no longer kept, when
// the sink is unknown, and when the sink has not passed the record before from: a replay
// never skips. If from is the sink's position, no record is delivered again, but a
// destination that keeps another position for the sink loses that position.
func (o *Queue) PlanReplay(ctx context.Context, sink string, from uint64, count func(segment.SeqRange) uint64) (Replay, error) {
	a, err := o.account(sink)
	switch {
	case err != nil:
		return Replay{}, err
	case from == a.Next:
		return Replay{Sink: sink, Records: segment.SeqRange{From: from, To: from}, Before: a, After: a.ReplayedNow(time.Now())}, nil
	case from > a.Next:
		return Replay{}, fmt.Errorf("sink %s is at record %d and has not passed record %d yet: a replay only goes back", sink, a.Next, from)
	}
	if err := o.checkReplayable(sink, a); err != nil {
		return Replay{}, err
	}
	first, why, err := o.firstReplayable(ctx, a.Next)
	if err != nil {
		return Replay{}, err
	}
	if from < first {
		received, err := o.receivedAt(ctx, segment.SeqRange{From: first, To: first + 1})
		return Replay{}, errors.Join(notKept(first, received, why), err)
	}
	r := Replay{Sink: sink, Records: segment.SeqRange{From: from, To: a.Next}, Before: a}
	r.Lost = o.lostIn(r.Records)
	if r.After, err = a.SetBack(from, state.Account{Corrupt: r.Lost, DeadLettered: count(r.Records)}); err != nil {
		return Replay{}, fmt.Errorf("sink %s: %w", sink, err)
	}
	r.After = r.After.ReplayedNow(time.Now())
	if r.Oldest, err = o.receivedAt(ctx, r.Records); err != nil {
		return Replay{}, err
	}
	r.Newest, err = o.receivedLast(ctx, r.Records)
	return r, err
}

// ReplayAt is the first record that was received at or after t, for PlanReplay.
// It fails when records of that time may have been removed. If records did not
// arrive in the order of their times, it is the first such record in the order of
// the log.
func (o *Queue) ReplayAt(ctx context.Context, sink string, t time.Time) (uint64, error) {
	a, err := o.account(sink)
	if err == nil {
		err = o.checkReplayable(sink, a)
	}
	if err != nil {
		return 0, err
	}
	first, why, err := o.firstReplayable(ctx, a.Next)
	if err != nil {
		return 0, err
	}
	oldest, err := o.receivedAt(ctx, segment.SeqRange{From: first, To: a.Next})
	if err != nil {
		return 0, err
	}
	if first > 1 && t.Before(oldest) {
		return 0, notKept(first, oldest, why)
	}
	var seq uint64
	err = o.frames(ctx, segment.SeqRange{From: o.skipBefore(ctx, first, t), To: a.Next}, func(f *segment.Frame) error {
		if !time.Unix(0, f.Received).Before(t) {
			seq = max(f.FirstSeq, first)
			return errStop
		}
		return nil
	})
	if err == nil && seq == 0 {
		err = fmt.Errorf("sink %s has passed no record that was received at or after %s: nothing to replay", sink, t.UTC().Format(time.RFC3339))
	}
	return seq, err
}

func (o *Queue) account(sink string) (state.Account, error) {
	if err := o.found.CursorsErr; err != nil {
		return state.Account{}, fmt.Errorf("queue %s: the cursors file cannot be used (%w): see docket queue check", o.dir, err)
	}
	a, ok := o.found.Accounts[sink]
	if !ok {
		return state.Account{}, fmt.Errorf("queue %s has no sink %q: a new sink starts at the first kept record, without a replay", o.dir, sink)
	}
	return a, nil
}

func (o *Queue) checkReplayable(sink string, a state.Account) error {
	if len(o.found.Segments) == 0 || a.Next <= o.FirstSeq() {
		return fmt.Errorf("sink %s is at record %d, and the queue keeps no earlier record: set queue.retain to keep records for replays", sink, a.Next)
	}
	return nil
}

// firstReplayable is the seq of the first record from which on, up to record
// upTo, the queue keeps everything that is not counted as lost, and why no
// earlier one is it.
func (o *Queue) firstReplayable(ctx context.Context, upTo uint64) (seq uint64, why string, err error) {
	seq, why = o.FirstSeq(), "older records are no longer kept"
	for i, s := range o.found.Segments[1:] {
		before, unreadable, err := o.segmentContents(ctx, o.found.Segments[i])
		if err != nil {
			return 0, "", err
		}
		gap := segment.SeqRange{From: before.LastSeq + 1, To: s.FirstSeq}
		switch {
		case gap.From >= upTo:
			return seq, why, nil
		case errors.Is(unreadable, fs.ErrNotExist): // it was removed meanwhile
		case unreadable != nil:
			why = fmt.Sprintf("segment %s cannot be read (%v)", before.Name, unreadable)
		case gap.From < gap.To && !o.isKnownLost(gap):
			why = gap.String() + " cannot be found (see docket queue check)"
		default:
			continue
		}
		seq = s.FirstSeq
	}
	return seq, why, nil
}

// frames calls visit with the frames that have records in r, until it returns
// errStop.
func (o *Queue) frames(ctx context.Context, r segment.SeqRange, visit func(*segment.Frame) error) error {
	w := walk{o: o, ctx: ctx}
	w.visit = func(_, _ *segment.Stored, it *segment.Item) error {
		f := &it.Frame
		if it.Kind != segment.IsFrame {
			return nil
		}
		if f.FirstSeq >= r.To {
			return errStop
		}
		if f.Count == 0 || f.End() <= r.From {
			return nil
		}
		return visit(f)
	}
	if err := w.run(r.From); !errors.Is(err, errStop) {
		return err
	}
	return nil
}

// receivedAt is when the first record in r that can be read was received.
func (o *Queue) receivedAt(ctx context.Context, r segment.SeqRange) (t time.Time, err error) {
	err = o.frames(ctx, r, func(f *segment.Frame) error {
		t = time.Unix(0, f.Received).UTC()
		return errStop
	})
	return t, err
}

// receivedLast is when the last record in r that can be read was received. It
// begins with the last segment, which mostly has it.
func (o *Queue) receivedLast(ctx context.Context, r segment.SeqRange) (t time.Time, err error) {
	for _, s := range slices.Backward(o.found.Segments) {
		if s.FirstSeq >= r.To {
			continue
		}
		err = o.frames(ctx, segment.SeqRange{From: max(r.From, s.FirstSeq), To: min(r.To, s.Until)}, func(f *segment.Frame) error {
			t = time.Unix(0, f.Received).UTC()
			return nil
		})
		if err != nil || !t.IsZero() || s.FirstSeq <= r.From {
			break
		}
	}
	return t, err
}

// skipBefore returns the seq at which the search for time t can begin: segments
// whose successor begins before t hold nothing else.
func (o *Queue) skipBefore(ctx context.Context, first uint64, t time.Time) uint64 {
	for _, s := range o.found.Segments {
		if s.FirstSeq <= first {
			continue
		}
		received, err := o.receivedAt(ctx, segment.SeqRange{From: s.FirstSeq, To: s.Until})
		if err != nil || received.IsZero() || !received.Before(t) {
			break
		}
		first = s.FirstSeq
	}
	return first
}
