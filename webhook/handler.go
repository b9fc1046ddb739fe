package webhook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/docket-export/docket/client"
	"github.com/docket-export/docket/decision"
)

// Log returns a handler that passes every request on to next, and has c record what next
// decides. A request is a review when it is a POST of application/json; others leave no
// record. Review and answer pass byte for byte as they are, each piece when it comes.
// c.Mode says what a record may cost:
//
//   - Batch: nothing. The record is made after next has returned, on a goroutine of c,
//     and the answer waits for nothing. What finds no room is lost, and c counts it.
//   - Blocking: the answer is held until its records are durable, c's timeout is over, or the
//     API server will soon wait no longer. An answer of more than 4 MiB is not held.
//   - BlockingStrict: as Blocking, and where its records are not durable then, the answer is 500 instead of the handler's. So is an answer of more than 4 MiB. Such a review may
//     have two records in the end: what next decided, which became durable late, and one
//     of decision error that says what was answered.
//
// In the modes that hold an answer next cannot hijack the connection, and its
// informational answers (1xx) are dropped.
//
// A failed review leaves a record of decision error with the reason in failure. It failed if next
// did not read the whole review, or if next panicked. It also failed with a malformed answer, a
// status other than 200, or a client that went away. A panic goes on. With a preset a review has
// one record for each violation; contents that were asked for, audit annotations and other warnings
// are in the first. A handler that knows its violations names them with Found instead, if
// Options.Found is set. Records are numbered by c, so a gap in their sequence is a loss. Flush and
// Close of c wait for the records of all answers that were given.
//
// A nil client records nothing: Log returns next itself. Options that are not valid
// are a mistake in the program, for which Log panics.
//
// BUG: http.MaxBytesReader does not know the answer of a handler that is logged. Where a
// request is larger than it allows, the server and not the reader closes the connection.
func Log(next http.Handler, c *client.Client, o Options) http.Handler {
	if err := o.Validate(); err != nil {
		panic("webhook: " + err.Error())
	}
	if c == nil {
		return next
	}
	if len(o.Decisions) == 0 {
		o.Decisions = defaultDecisions()
	}
	o.Decisions, o.Include = slices.Clone(o.Decisions), slices.Clone(o.Include)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &handler{next: next, client: c, Options: o}
}

type handler struct {
	Options
	next    http.Handler
	client  *client.Client
	memory  memory
	readers sync.Pool // of *decision.ReviewReader
	faulty  sync.Once // a fault was logged
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case !isReview(r):
		h.next.ServeHTTP(w, r)
	case h.client.Mode() == client.Batch:
		h.serve(w, r)
	default:
		h.serveHeld(w, r)
	}
}

// isReview reports whether r is what the API server sends to a webhook, by its outside.
func isReview(r *http.Request) bool {
	if r.Method != http.MethodPost {
		return false
	}
	kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	return strings.EqualFold(strings.TrimSpace(kind), "application/json")
}

// serve passes the answer on as it comes.
func (h *handler) serve(w http.ResponseWriter, r *http.Request) {
	x, r := h.begin(r)
	completed := false
	defer func() {
		p := recover()
		x.end(r.Context(), completed, p)
		x.stop()
		h.handOver(x)
		if p != nil {
			panic(p) // before its stack is gone
		}
	}()
	h.next.ServeHTTP(&answer{ResponseWriter: w, x: x}, r)
	completed = true
}

// handOver has the records of x made, or counted. It waits for nothing.
func (h *handler) handOver(x *exchange) {
	if h.passes(x) {
		defer h.release(x)
		defer h.guard(x)
		h.observe(x, 0)
		return
	}
	if h.client.Later(x.size(), func() { h.log(x) }) {
		return
	}
	defer h.release(x)
	defer h.guard(x)
	for _, r := range h.records(x) {
		h.number(r) // a gap
		h.client.Lose(r.Decision, 1)
	}
}

// passes reports whether it is sure, and soon found out, that x leaves no record.
func (h *handler) passes(x *exchange) bool {
	defer h.guard(x)
	if x.lost.Load() || !x.body.ended || x.request.unread != "" || x.whyFailed() != "" ||
		len(x.found.list()) > 0 {
		return false
	}
	x.decision = decision.ReviewDecision(x.request.reader, x.response.reader)
	return x.decision != "" && !slices.Contains(h.Decisions, x.decision) &&
		(h.Preset == "" || x.decision == decision.Allow) // others may be split into what is recorded
}

// log makes the records of x and gives them to the client, who counts what it has no room
// for.
func (h *handler) log(x *exchange) {
	defer h.release(x)
	defer h.guard(x)
	records := h.records(x)
	for _, r := range records {
		h.number(r)
		_ = h.client.TryLog(r) // counted
	}
	x.logged = true
	h.observe(x, len(records))
}

// number gives r its number, unless Found has.
func (h *handler) number(r *decision.Record) {
	if r.Sequence == 0 {
		r.Sequence = h.client.NextSequence()
	}
}

// serveHeld passes the answer on when it may leave.
func (h *handler) serveHeld(w http.ResponseWriter, r *http.Request) {
	x, r := h.begin(r)
	a := newHeld(w, x, h.client.Mode() == client.BlockingStrict)
	completed := false
	defer func() {
		if completed {
			return
		}
		p := recover()
		x.end(r.Context(), false, p)
		x.stop()
		a.free()
		h.log(x) // there is no answer to hold
		if p != nil {
			panic(p) // before its stack is gone
		}
	}()
	h.next.ServeHTTP(a, r)
	completed = true
	x.end(r.Context(), true, nil)
	x.stop()
	if a.passing {
		h.log(x)
		return
	}
	ctx, cancel := x.inTime(r)
	defer cancel()
	if err := h.export(ctx, x, a); err != nil {
		a.refuse()
		return
	}
	a.release()
}

// inTime returns a context that ends while the API server still waits for the answer, if it says in the query how long it
// waits. A twentieth of that is for the answer's way.
func (x *exchange) inTime(r *http.Request) (context.Context, context.CancelFunc) {
	d, err := time.ParseDuration(r.URL.Query().Get("timeout"))
	if err != nil || d <= 0 {
		return r.Context(), func() {}
	}
	return context.WithDeadline(r.Context(), x.start.Add(d-d/20))
}

var (
	errUnrecorded = errors.New("the review could not be recorded")
	errTooLarge   = errors.New("the answer is too large to hold until its record is stored")
)

// export makes the records of x and waits for them as the client's mode says. An error
// says that the answer must not leave.
func (h *handler) export(ctx context.Context, x *exchange, a *held) (err error) {
	strict := h.client.Mode() == client.BlockingStrict
	err = errUnrecorded
	defer func() { // after a fault
		if !strict {
			err = nil
		}
	}()
	defer h.release(x)
	defer h.guard(x)
	records := h.records(x)
	switch {
	case x.lost.Load():
	case a.dropped:
		err = errTooLarge
	default:
		for _, r := range records {
			h.number(r)
		}
		err = h.client.ExportAll(ctx, records...)
	}
	x.logged = true
	if err != nil && strict {
		h.logRefused(x, records, err)
	}
	h.observe(x, len(records))
	return err
}

// logRefused tries to leave a record that says why the answer was 500.
func (h *handler) logRefused(x *exchange, records []*decision.Record, err error) {
	if len(records) == 0 || x.decision == decision.Error || !slices.Contains(h.Decisions, decision.Error) {
		return // the API server takes 500 for any other failure
	}
	r := *records[0]
	r.Failure = fmt.Sprintf("answered 500 instead of %s: %v", x.decision, err)
	r.Decision, r.Code = decision.Error, http.StatusInternalServerError
	r.Object, r.OldObject, r.Patch = nil, nil, nil
	r.Sequence = h.client.NextSequence()
	_ = h.client.TryLog(&r) // counted
}

func (h *handler) observe(x *exchange, records int) {
	if h.Observe != nil && !x.lost.Load() {
		h.Observe(Outcome{Decision: x.decision, Records: records, NotReview: x.notReview, Duration: x.duration})
	}
}

// guard keeps a fault of this package from the handler that it logs: what is decided must
// not depend on its record. It is deferred.
func (h *handler) guard(x *exchange) {
	p := recover()
	if p == nil {
		return
	}
	x.lose()
	h.faulty.Do(func() { // p may hold what is in a review
		h.Log.Error("webhook: a panic kept a review from being recorded or observed; further panics are not logged",
			"fault", fmt.Sprintf("%T", p), "stack", string(debug.Stack()))
	})
}

// begin returns the exchange that begins with r, and what the handler gets of r.
func (h *handler) begin(r *http.Request) (*exchange, *http.Request) {
	x := &exchange{h: h, path: bounded(r.URL.Path), start: time.Now()}
	x.request.open(h, r.Header.Get("Content-Encoding"))
	if r.Body != nil && r.Body != http.NoBody { // which handlers compare with
		x.body = body{ReadCloser: r.Body, x: x}
		r.Body = &x.body
	}
	if h.Found { // others need not pay for the context
		r = r.WithContext(context.WithValue(r.Context(), exchangeKey{}, x))
	}
	return x, r
}

// bounded cuts off what no webhook has in its path.
func bounded(path string) string {
	const most = 1 << 10
	if len(path) > most {
		path = strings.ToValidUTF8(path[:most], "")
	}
	return path
}
