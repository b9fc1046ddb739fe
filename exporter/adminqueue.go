package exporter

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/docket-export/docket/exporter/queue"
	"github.com/docket-export/docket/exporter/queue/inspect"
	"github.com/docket-export/docket/exporter/queue/segment"
	"github.com/docket-export/docket/internal/fairconn"
)

const (
	// maxLookers is how many requests read the queue at a time: each takes the disk and half
	// a processor while it is served.
	maxLookers = 1
	// lookerBuffer is what is written to a reader at once.
	lookerBuffer = 64 << 10
)

// readerBytes is what those who read the queue have in memory: one reads at a time.
// usualReaderBytes of it are a page as others of the admin endpoint.
func readerBytes(maxRecord int) int64 {
	return queue.Limits{}.MemoryBytes(maxRecord) + maxLookers*lookerBuffer
}

var usualReaderBytes = readerBytes(usualRecordBytes)

// handleQueue adds the requests below /queue.
func (e *Exporter) handleQueue(mux *http.ServeMux, private bool) {
	e.handlePrivate(mux, private, "GET /queue", e.looking(e.describeQueue))
	e.handlePrivate(mux, private, "GET /queue/records", e.looking(e.readRecords))
}

// looking lets a few requests in at a time, with a look at the queue each.
func (e *Exporter) looking(handle func(http.ResponseWriter, *http.Request, *inspect.Queue) error) privateHandler {
	return func(w http.ResponseWriter, r *http.Request) error {
		select {
		case e.lookers <- struct{}{}:
			defer func() { <-e.lookers }()
		default:
			return &requestError{http.StatusServiceUnavailable, "another client is reading the queue: try again"}
		}
		o, err := e.look()
		if err != nil {
			return err
		}
		return handle(w, r, o)
	}
}

// look is the queue as the tools for one at rest see it.
func (e *Exporter) look() (*inspect.Queue, error) {
	found, err := e.queue.Survey()
	if err != nil {
		return nil, err
	}
	return inspect.OfLive(e.config().Queue.Directory, e.queue.Files(), found)
}

// errEnough ends a reading that has what it wants.
var errEnough = errors.New("enough was read")

// readAhead reads q from a seq on, beside the sinks.
func readAhead(directory string, q *queue.Queue) func(ctx context.Context, from uint64, visit func(queue.Record) (more bool)) error {
	return func(ctx context.Context, from uint64, visit func(queue.Record) (more bool)) error {
		if from > q.LastSeq() {
			return nil
		}
		found, err := q.Survey()
		if err != nil {
			return err
		}
		o, err := inspect.OfLive(directory, q.Files(), found)
		if err != nil {
			return err
		}
		err = o.Read(ctx, segment.SeqRange{From: from, To: math.MaxUint64}, func(r segment.Record) error {
			if visit(queue.Record(r)) {
				return nil
			}
			return errEnough
		}, func(inspect.Finding) error { return nil })
		if errors.Is(err, errEnough) {
			err = nil
		}
		return err
	}
}

// maxVisited is how many records at the end of the queue a source is shown at its start, with
// those of other sources among them: twice as many as an endpoint knows again.
const maxVisited = 1 << 17

// visitStored shows a source the records that it has stored, among the last of the queue: also
// those that were on their way when it ended, once they are durable. It is no looker, for which a
// slow client could have it wait: what it reads into is less than the source has in memory later.
func (e *Exporter) visitStored(ctx context.Context, source string, visit func(producer string, record []byte)) error {
	if err := e.ingest.settled(ctx, source); err != nil {
		return err
	}
	last := e.queue.LastSeq()
	return readAhead(e.config().Queue.Directory, e.queue)(ctx, last+1-min(last, maxVisited), func(r queue.Record) bool {
		if r.Source == source {
			visit(r.Producer, r.Data)
		}
		return r.Seq < last
	})
}

// describeQueue answers with the document of docket queue ls.
func (e *Exporter) describeQueue(w http.ResponseWriter, r *http.Request, o *inspect.Queue) error {
	c, err := o.Contents(r.Context())
	if err != nil {
		return err
	}
	return e.answer(w, c)
}

// readRecords answers with records, as inspect.AppendRecord writes them, and findings in
// between: see adminclient.
func (e *Exporter) readRecords(w http.ResponseWriter, r *http.Request, o *inspect.Queue) error {
	wanted, err := wantedRecords(r.URL.Query(), o)
	if err != nil {
		return &requestError{http.StatusBadRequest, err.Error()}
	}
	ctx, stop, err := endless(w, r)
	if err != nil {
		return err
	}
	defer stop()
	out := bufio.NewWriterSize(&timedWriter{w: w, control: http.NewResponseController(w)}, lookerBuffer)
	var head []byte
	err = o.ReadOn(ctx, &e.place, wanted, func(record segment.Record) (err error) {
		head, err = writeRecord(out, head, record)
		return err
	}, func(f inspect.Finding) error {
		return json.NewEncoder(out).Encode(map[string]any{"finding": f.Document()})
	})
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		e.log.Debug("admin endpoint: records not read to the end", "error", err)
		panic(http.ErrAbortHandler) // so that the part is not taken for the whole
	}
	return nil
}

// writeRecord writes record in the form of inspect.AppendRecord, with no copy of its bytes,
// and a newline. head is memory to use, and what was used.
func writeRecord(w *bufio.Writer, head []byte, record segment.Record) ([]byte, error) {
	data := record.Data
	record.Data = nil
	head = inspect.AppendRecord(head[:0], record)
	end := len(head) - len("}")
	for _, part := range [][]byte{head[:end], data, head[end:], {'\n'}} {
		if _, err := w.Write(part); err != nil {
			return head, err
		}
	}
	return head, nil
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

// wantedRecords reads from, to and sink of a request; from and to belong to it.
func wantedRecords(q url.Values, o *inspect.Queue) (r segment.SeqRange, err error) {
	r = segment.SeqRange{From: 1, To: math.MaxUint64}
	number := func(key string, to *uint64) {
		text := q.Get(key)
		if text == "" || err != nil {
			return
		}
		if *to, err = strconv.ParseUint(text, 10, 64); err != nil {
			err = fmt.Errorf("%s=%q: must be the number of a record", key, text)
		}
	}
	number("from", &r.From)
	number("to", &r.To)
	if r.To < math.MaxUint64 {
		r.To++
	}
	if sink := q.Get("sink"); sink != "" && err == nil {
		a, ok := o.Sink(sink)
		if !ok || q.Get("from") != "" {
			return r, errors.New("sink must be a sink of the queue, and must not be combined with from")
		}
		r.From = a.Next
	}
	return r, err
}

// timedWriter gives each part of a long answer its own time.
type timedWriter struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

func (t *timedWriter) Write(b []byte) (int, error) {
	if err := t.control.SetWriteDeadline(time.Now().Add(fairconn.WriteTimeout)); err != nil {
		return 0, err
	}
	return t.w.Write(b)
}
