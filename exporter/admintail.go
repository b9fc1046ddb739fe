package exporter

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/docket-export/docket/exporter/filter"
	"github.com/docket-export/docket/exporter/queue/inspect"
	"github.com/docket-export/docket/exporter/queue/segment"
	"github.com/docket-export/docket/internal/fairconn"
)

const (
	// maxTails is how many follow the records at a time.
	maxTails = 4
	// tailWindow is how many records one may be behind before some are missed.
	tailWindow = 16384
	// A follower is served for tailTurn at a time with tailPause between, a quarter of a
	// processor at most: what it does not get to in time it misses.
	tailTurn  = 25 * time.Millisecond
	tailPause = 75 * time.Millisecond
)

// handleTail adds the request that follows the records.
func (e *Exporter) handleTail(mux *http.ServeMux, private bool) {
	e.handlePrivate(mux, private, "GET /tail", e.tail)
}

// tailing is one who follows the records. It reads them from the queue, where they are
// anyway, and holds up nobody: not a commit, not a delivery, no segment.
type tailing struct {
	e    *Exporter
	when *filter.Filter // nil: all
	out  *bufio.Writer
	head []byte
	at   inspect.Place
	next uint64 // the seq to read next
	// until is when the turn is over; zero before its first record.
	until time.Time
	// fates are those of the records of one sink; nil: it follows what is stored.
	fates *fates
}

// tail answers with records as they are stored or, with sink, as their fate at that sink is
// decided, until the client goes or docket stops.
func (e *Exporter) tail(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	when, err := filter.Compile(query.Get("when"))
	if err != nil {
		return &requestError{http.StatusBadRequest, "when: " + err.Error()}
	}
	o, err := e.look()
	if err != nil {
		return err
	}
	t := &tailing{e: e, when: when, at: o.End(), next: e.queue.LastSeq() + 1}
	if text := query.Get("from"); text != "" {
		if t.next, err = strconv.ParseUint(text, 10, 64); err != nil {
			return &requestError{http.StatusBadRequest, fmt.Sprintf("from=%q: must be the number of a record", text)}
		}
		t.next = min(t.next, e.queue.LastSeq()+1)
	}
	select {
	case e.tailPlaces <- struct{}{}:
		defer func() { <-e.tailPlaces }()
	default:
		return &requestError{http.StatusServiceUnavailable, fmt.Sprintf("%d clients already follow the records: stop one of them", maxTails)}
	}
	if sink := query.Get("sink"); sink != "" {
		d := e.parts().delivery(sink)
		if d == nil {
			return &requestError{http.StatusNotFound, e.noSuchSink(sink)}
		}
		var leave func()
		t.fates, leave = d.tails.follow()
		defer leave()
	}
	ctx, stop, err := endless(w, r)
	if err != nil {
		return err
	}
	defer stop()
	t.out = bufio.NewWriterSize(&timedWriter{w: w, control: http.NewResponseController(w)}, lookerBuffer)
	w.WriteHeader(http.StatusOK)
	for err == nil {
		if err = http.NewResponseController(w).Flush(); err == nil {
			err = t.turn(ctx)
		}
	}
	e.log.Debug("admin endpoint: stopped following records", "reason", err)
	panic(http.ErrAbortHandler) // such an answer has no end
}

// endless prepares an answer of records that may take long: ctx is done when the client has
// gone, or the endpoint ends.
func endless(w http.ResponseWriter, r *http.Request) (ctx context.Context, stop func(), err error) {
	// The bound on reading a request would end the answer: the server reads on meanwhile, to
	// hear that the client has gone.
	if err := http.NewResponseController(w).SetReadDeadline(time.Time{}); err != nil {
		return nil, nil, err
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	ctx, stop = context.WithCancel(r.Context())
	go func() {
		select {
		case <-fairconn.Ending(r):
			stop()
		case <-ctx.Done():
		}
	}()
	return ctx, stop, nil
}

// turn waits for records and writes them. Its error is that ctx is done, the queue has
// closed or the client has gone.
func (t *tailing) turn(ctx context.Context) error {
	if t.fates != nil {
		select {
		case <-t.fates.news:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	} else if err := t.e.queue.Await(ctx, t.next-1); err != nil {
		return err
	}
	if err := t.serve(ctx); err != nil {
		return err
	}
	wait(ctx, tailPause)
	return nil
}

// serve reads and writes what there is, while nobody else reads the queue.
func (t *tailing) serve(ctx context.Context) error {
	done, err := t.e.beginReading(ctx)
	if err != nil {
		return err
	}
	defer done()
	o, err := t.e.look()
	if err != nil {
		return err
	}
	t.until = time.Time{}
	if t.fates != nil {
		err = t.decided(ctx, o)
	} else {
		err = t.stored(ctx, o)
	}
	if err != nil && !errors.Is(err, errTurnOver) {
		return err
	}
	return t.out.Flush()
}

// errTurnOver ends the reading for now.
var errTurnOver = errors.New("turn is over")

// stored writes what was stored since the last turn.
func (t *tailing) stored(ctx context.Context, o *inspect.Queue) error {
	last := t.e.queue.LastSeq()
	if oldest := last - min(last, tailWindow) + 1; t.next < oldest {
		if err := t.missed(oldest - t.next); err != nil {
			return err
		}
		t.next = oldest
	}
	return t.read(ctx, o, segment.SeqRange{From: t.next, To: last + 1}, nil)
}

// decided writes the records whose fate was decided since the last turn.
func (t *tailing) decided(ctx context.Context, o *inspect.Queue) error {
	list, missed := t.fates.take()
	if err := t.missed(missed); err != nil {
		return err
	}
	for i := range list {
		f := &list[i]
		t.next = f.first
		if err := t.read(ctx, o, segment.SeqRange{From: f.first, To: f.last + 1}, f.of); err != nil {
			f.first = t.next
			t.fates.putBack(list[i:])
			return err
		}
	}
	return nil
}

// read writes the records in r that there are and that are wanted, and moves next behind
// each. Its error may be errTurnOver.
func (t *tailing) read(ctx context.Context, o *inspect.Queue, r segment.SeqRange, outcome func(seq uint64) string) error {
	return o.ReadOn(ctx, &t.at, r, func(record segment.Record) error {
		if t.until.IsZero() {
			t.until = time.Now().Add(tailTurn) // the way to the first one does not count
		} else if time.Now().After(t.until) {
			return errTurnOver
		}
		t.next = record.Seq + 1
		if !t.wants(record) {
			return nil
		}
		return t.write(record, outcome)
	}, func(f inspect.Finding) error {
		from, to := max(f.Lost.From, r.From), min(f.Lost.To, r.To)
		if from >= to {
			return nil
		}
		t.next = to
		return t.missed(to - from)
	})
}

// wants reports whether a record is to be shown: one that cannot be judged is not.
func (t *tailing) wants(record segment.Record) bool {
	takes, err := t.when.Takes(record.Data)
	return takes && err == nil
}

// write writes a record in the form of inspect.AppendRecord, with its outcome.
func (t *tailing) write(record segment.Record, outcome func(seq uint64) string) (err error) {
	if outcome == nil {
		t.head, err = writeRecord(t.out, t.head, record)
		return err
	}
	data := record.Data
	record.Data = nil
	t.head = inspect.AppendRecord(t.head[:0], record)
	before, _ := bytes.CutSuffix(t.head, []byte(`,"record":}`))
	for _, part := range [][]byte{before, []byte(`,"outcome":"` + outcome(record.Seq) + `","record":`), data, []byte("}\n")} {
		if _, err := t.out.Write(part); err != nil {
			return err
		}
	}
	return nil
}

// missed tells of n records that are left out.
func (t *tailing) missed(n uint64) error {
	if n == 0 {
		return nil
	}
	t.e.metrics.tailMissed.Add(float64(n))
	_, err := fmt.Fprintf(t.out, "{\"missed\":%d}\n", n)
	return err
}

// tailsOf returns those who follow a sink: the same whenever its delivery is another.
func (e *Exporter) tailsOf(sink string) *tails {
	e.tailsMu.Lock()
	defer e.tailsMu.Unlock()
	if e.tails == nil {
		e.tails = map[string]*tails{}
	}
	t := e.tails[sink]
	if t == nil {
		t = &tails{}
		e.tails[sink] = t
	}
	return t
}

// fate is what is known of b for those who follow its sink.
func (b *batch) fate(asRejected string) fate {
	return fate{first: b.first, last: b.last, filtered: slices.Clone(b.leftOut), rejected: slices.Sorted(slices.Values(b.turnedDown)), asRejected: asRejected}
}
