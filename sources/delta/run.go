package delta

import (
	"errors"
	"fmt"
	"slices"

	"github.com/docket-export/docket/decision"
)

// chunkBytes is how much End gathers before it hands it over.
const chunkBytes = 64 << 10

// Run is one run of an audit in a Tracker. Call Observe for each of its violations,
// then End, and Commit once the records of both are durable.
type Run struct {
	t        *Tracker
	id       string
	quoted   *string // the id in JSON; it marks what this run has opened
	known    bool    // it was committed before
	late     bool    // it is older than the run before it
	snapshot bool    // it repeats what stands

	next    *next  // the state after it; nil: nothing was written yet
	entry   []byte // scratch
	err     error  // the state cannot be written
	seen    uint64 // violations that stood before and were observed
	unread  bool   // a violation could not be read: it may be one of those
	ended   bool
	resolve bool // what was not observed is gone

	changes Changes
}

// Changes is what a run has brought.
type Changes struct {
	Opened   uint64 // records of that kind
	Resolved uint64 // records of that kind
	Standing uint64 // violations that stand after the run
	// Snapshot: the run is complete, and every standing violation has a record in it.
	Snapshot bool
	// Plain is how many violations were sent as they came; Observe has said why.
	Plain uint64
}

// Observe takes one violation of the run: a line of Gatekeeper's export, without its
// "\n" and not blank. It appends the record to send to dst, if there is one, ended by
// "\n"; n is how many there are.
//
// On an error the violation is not tracked: the line itself was appended, n is 1, and out must
// be sent all the same. Use errors.Is for ErrTooMany and ErrTooLong.
func (r *Run) Observe(dst, line []byte) (out []byte, n int, err error) {
	if r.known {
		return dst, 0, nil
	}
	v, err := parse(line, &r.t.scratch)
	if err != nil {
		r.unread = true
	} else {
		out, n, err = r.observe(dst, &v)
	}
	if err != nil {
		r.changes.Plain++
		return append(append(dst, line...), '\n'), 1, err
	}
	return out, n, nil
}

func (r *Run) observe(dst []byte, v *violation) (out []byte, n int, err error) {
	s, stands := r.t.standing[v.key]
	if !stands {
		return r.open(dst, v)
	}
	if s.seen == r.t.mark {
		return dst, 0, nil
	}
	s.seen = r.t.mark
	r.t.standing[v.key] = s
	r.seen++
	r.keep(v, *s.opened)
	if !r.snapshot {
		return dst, 0, nil
	}
	return r.record(dst, v, decision.AuditSnapshot, *s.opened)
}

// open begins to track a violation.
func (r *Run) open(dst []byte, v *violation) (out []byte, n int, err error) {
	if len(r.t.standing) >= r.t.maxStanding {
		return dst, 0, ErrTooMany
	}
	out, n, err = r.record(dst, v, decision.AuditOpened, "")
	if err != nil {
		return dst, 0, err
	}
	r.keep(v, *r.quoted)
	r.t.standing[v.key] = standing{opened: r.quoted, seen: r.t.mark}
	r.changes.Opened++
	return out, n, nil
}

// keep writes a violation that stands to the next state.
func (r *Run) keep(v *violation, opened string) {
	r.entry = v.appendEntry(r.entry[:0], opened)
	r.add(r.entry)
}

func (r *Run) add(entry []byte) {
	if r.next == nil && r.err == nil {
		r.next, r.err = r.t.newState()
	}
	if r.err == nil {
		r.next.add(entry)
	}
}

func (r *Run) record(dst []byte, v *violation, eventType, opened string) (out []byte, n int, err error) {
	out = v.appendRecord(dst, eventType, *r.quoted, opened)
	if limit := r.t.MaxRecordBytes; limit > 0 && len(out)-len(dst)-len("\n") > limit {
		return dst, 0, ErrTooLong
	}
	return out, 1, nil
}

// End ends the run after its last violation. complete says that the run is proven
// whole. End passes the records of resolved violations to yield in chunks of n whole
// lines. The lines are valid until yield returns. An error
// is that of yield, or says that the state could not be read or written. The run cannot be
// committed then, and may be begun again.
func (r *Run) End(complete bool, yield func(lines []byte, n int) error) (Changes, error) {
	if r.known {
		return Changes{Standing: r.t.state.Count}, nil
	}
	r.resolve = complete && !r.late && !r.unread
	before := r.t.state.Count
	if r.seen < before {
		if err := r.endUnseen(yield); err != nil {
			return Changes{}, err
		}
	}
	if r.err != nil {
		return Changes{}, r.err
	}
	r.changes.Standing = before + r.changes.Opened - r.changes.Resolved
	r.changes.Snapshot = r.snapshot && r.resolve
	r.ended = true
	return r.changes, nil
}

// endUnseen decides about what stood before and was not observed: it is resolved, or stands on.
func (r *Run) endUnseen(yield func(lines []byte, n int) error) error {
	var chunk []byte
	n := 0
	err := scan(r.t.path, func(entry []byte) error {
		k, _ := entryKey(entry)
		switch s, ok := r.t.standing[k]; {
		case !ok:
			return fmt.Errorf("delta: %s has changed while it was in use", r.t.path)
		case s.seen == r.t.mark:
			return nil
		case !r.resolve:
			r.add(append(entry, '\n'))
			return nil
		}
		chunk = appendHead(chunk, decision.AuditResolved, *r.quoted)
		chunk = append(append(chunk, entry[len("{"):]...), '\n')
		r.changes.Resolved++
		if n++; len(chunk) < chunkBytes {
			return nil
		}
		defer func() { chunk, n = chunk[:0], 0 }()
		return yield(chunk, n)
	}, nil)
	if err == nil && n > 0 {
		err = yield(chunk, n)
	}
	return err
}

// Commit makes the state after the run durable. Call it once all records of the run are
// durable, and before another run begins. After an error the state is the one before or
// after the run, and the run must be begun again.
func (r *Run) Commit() error {
	t := r.t
	switch {
	case r.known:
		return nil
	case !r.ended:
		return errors.New("delta: the run has not ended: call End before Commit")
	case t.run != r:
		return errors.New("delta: cannot commit a run after the next one has begun")
	}
	if r.next == nil { // nothing stands, or it was closed
		if r.changes.Standing > 0 {
			return errors.New("delta: the run was given up")
		}
		if r.next, r.err = t.newState(); r.err != nil {
			return r.err
		}
	}
	next := t.state
	next.Interval, next.Count, next.CRC = t.interval, r.next.count, r.next.crc
	next.Runs = append(slices.Clone(t.state.Runs), r.id)
	next.Runs = next.Runs[max(0, len(next.Runs)-maxRuns):]
	if r.snapshot && r.seen > 0 {
		next.Begun = r.id
	}
	if r.changes.Snapshot {
		next.Snapshot = r.id
	}
	if err := r.next.replace(t.path, next); err != nil {
		return err
	}
	t.Close()
	t.state = next
	if r.changes.Resolved > 0 {
		t.forget(func(s standing) bool { return s.seen != t.mark })
	}
	t.run = nil
	return nil
}
