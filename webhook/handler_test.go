package webhook

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/client"
	"github.com/docket-export/docket/client/clienttest"
	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/decision"
)

// ackTimeout is that of clients whose exporter answers: no machine holds an ack up for so long.
const ackTimeout = 5 * time.Minute

var modes = []client.Mode{client.Batch, client.Blocking, client.BlockingStrict}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), await.Left(t))
	t.Cleanup(cancel)
	return ctx
}

func newExporter(t *testing.T) *clienttest.Exporter {
	e := clienttest.New()
	t.Cleanup(func() {
		e.Close()
		for _, err := range e.Violations() {
			t.Errorf("violation of the protocol: %v", err)
		}
	})
	return e
}

func newClient(t *testing.T, e *clienttest.Exporter, config client.Config) *client.Client {
	t.Helper()
	config.Address = "test://"
	config.Transports = map[string]client.Transport{"test": func(string, *client.Config) (client.Dial, error) { return e.Dial, nil }}
	if config.Timeout == 0 {
		config.Timeout = ackTimeout
	}
	c, err := client.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_, _ = c.Close(ctx)
	})
	return c
}

// record is what a test reads of a record.
type record struct {
	decision.Record
	Lost map[string]int
}

// stored returns the records that c has stored, less those of losses, and what these tell.
func stored(t *testing.T, c *client.Client, e *clienttest.Exporter) (records []record, lost map[string]int) {
	t.Helper()
	if left, err := c.Close(t.Context()); left != 0 || err != nil {
		t.Fatalf("Close: got %d, %v, want all stored", left, err)
	}
	lost = map[string]int{}
	for _, l := range e.Lines() {
		var r record
		if err := json.Unmarshal([]byte(l.Text), &r); err != nil {
			t.Fatalf("line %s: %v", l.Text, err)
		}
		if r.EventType == client.LossEventType {
			for d, n := range r.Lost {
				lost[d] += n
			}
			continue
		}
		records = append(records, r)
	}
	return records, lost
}

const (
	uid    = "705ab4f5-6393-11e8-b7cc-42010a800001"
	review = `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"` + uid + `",` +
		`"kind":{"group":"","version":"v1","kind":"Pod"},"resource":{"group":"","version":"v1","resource":"pods"},` +
		`"name":"web","namespace":"shop","operation":"CREATE","userInfo":{"username":"alice","groups":["dev"]},` +
		`"object":{"kind":"Pod","metadata":{"name":"web","labels":{"password":"s3cret"}}},"dryRun":false}}`
	denied = `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"uid":"` + uid + `","allowed":false,` +
		`"status":{"code":403,"message":"no"}}}`
	allowed = `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"uid":"` + uid + `","allowed":true}}`
)

// answers reads the request and answers with text.
func answers(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, text)
	}
}

// passing are requests and handlers of all kinds, and the records that they leave.
var passing = map[string]struct {
	request string // its head, without what all have; "" is that of a review
	body    string // default: review
	handler http.HandlerFunc
	want    string // "decision failure", or none for no record
	code    int
	streams bool // pieces of it leave before the end, so an answer that was held has other pieces
}{
	"deny":                   {handler: answers(denied), want: "deny", code: 403},
	"allow":                  {handler: answers(allowed)},
	"other type":             {request: "Content-Type: application/jsonish\r\n", handler: answers(denied)},
	"JSON that is no review": {body: `{"kind":"ConversionReview"}`, handler: answers(`{}`), want: "error not an admission review"},
	"no response":            {handler: answers(`{"kind":"AdmissionReview"}`), want: "error the response"},
	"empty answer":           {handler: func(http.ResponseWriter, *http.Request) {}, want: "error "},
	"object of 20 MB":        {body: strings.Replace(review, "s3cret", strings.Repeat("s", 20<<20), 1), handler: answers(denied), want: "deny", code: 403},
	"encoded request":        {request: "Content-Type: application/json\r\nContent-Encoding: gzip\r\n", handler: answers(denied), want: "error the request has a content encoding"},
	"encoded answer": {handler: func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "br")
		answers(denied)(w, r)
	}, want: "error the response has a content encoding"},
	"chunked":      {request: "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n", handler: answers(denied), want: "deny", code: 403},
	"expected 100": {request: "Content-Type: application/json\r\nExpect: 100-continue\r\n", handler: answers(denied), want: "deny", code: 403},
	"not read, expected 100": {request: "Content-Type: application/json\r\nExpect: 100-continue\r\n", handler: func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, denied)
	}, want: "error the handler did not read the whole request"},
	"half read": {handler: func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.CopyN(io.Discard, r.Body, int64(len(review)/2))
		_, _ = io.WriteString(w, denied)
	}, want: "error the handler did not read the whole request"},
	"status 500": {handler: func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		http.Error(w, "boom", http.StatusInternalServerError)
	}, want: "error HTTP status 500", code: 500},
	"status 201": {handler: func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusCreated)
		answers(denied)(w, r)
	}, want: "deny", code: 403},
	"header": {handler: func(w http.ResponseWriter, r *http.Request) {
		w.Header()["x-lower"] = []string{"1", "2"}
		w.Header().Set("Content-Type", "application/json")
		w.Header()["Date"] = nil
		answers(denied)(w, r)
		w.Header().Set("Late", "no")
	}, want: "deny", code: 403},
	"trailers": {handler: func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "Told")
		answers(denied)(w, r)
		w.Header().Set("Told", "before")
		w.Header().Set(http.TrailerPrefix+"Untold", "after")
	}, want: "deny", code: 403},
	"less than the content length": {handler: func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(len(denied)+1))
		answers(denied)(w, r)
	}, want: "error the answer was cut off", code: 403},
	"early hints": {handler: func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusEarlyHints)
		answers(denied)(w, r)
	}, want: "deny", code: 403, streams: true},
	"flushed": {handler: func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		for _, piece := range strings.SplitAfter(denied, ",") {
			_, _ = io.WriteString(w, piece)
			w.(http.Flusher).Flush()
		}
	}, want: "deny", code: 403, streams: true},
	"flushed before it begins": {handler: func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_ = http.NewResponseController(w).Flush()
		w.WriteHeader(http.StatusTeapot) // too late
		_, _ = io.WriteString(w, denied)
	}, want: "deny", code: 403, streams: true},
	"panic": {handler: func(w http.ResponseWriter, r *http.Request) {
		answers(denied)(w, r)
		panic("s3cret")
	}, want: "error the handler panicked", code: 403},
	"broken off": {handler: func(w http.ResponseWriter, r *http.Request) {
		answers(denied)(w, r)
		panic(http.ErrAbortHandler)
	}, want: "error the answer was broken off", code: 403},
	"goroutine ended": {handler: func(w http.ResponseWriter, r *http.Request) {
		answers(denied)(w, r)
		runtime.Goexit()
	}, want: "error the handler panicked", code: 403},
	"hijacked": {handler: func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			_, _ = io.WriteString(w, denied)
			return
		}
		_, _ = rw.WriteString("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi")
		_ = rw.Flush()
		conn.Close()
	}, want: "error the handler took over the connection", streams: true},
}

// wire sends raw to a server of h and returns all that it says.
func wire(t *testing.T, h http.Handler, raw string) string {
	t.Helper()
	ended := make(chan struct{})
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(ended) // the server does not wait for who has hijacked
		h.ServeHTTP(w, r)
	}))
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	s.Start()
	defer s.Close()
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(await.Left(t))); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.WriteString(conn, raw) }() // a handler need not read it
	said, err := io.ReadAll(conn)
	if err != nil && !strings.Contains(err.Error(), "reset by peer") {
		t.Fatal(err)
	}
	<-ended
	return regexp.MustCompile(`(?m)^Date: .*`).ReplaceAllString(string(said), "Date: now")
}

// rawRequest is a POST with the head and the body.
func rawRequest(head, body string) string {
	if head == "" {
		head = "Content-Type: application/json\r\n"
	}
	if strings.Contains(head, "chunked") {
		var b strings.Builder
		for piece := range slices.Chunk([]byte(body), 100) {
			fmt.Fprintf(&b, "%x\r\n%s\r\n", len(piece), piece)
		}
		body = b.String() + "0\r\n\r\n"
	} else {
		head += fmt.Sprintf("Content-Length: %d\r\n", len(body))
	}
	return "POST /validate?timeout=10m HTTP/1.1\r\nHost: h\r\nConnection: close\r\n" + head + "\r\n" + body
}

// noting notes what h reads of its request.
func noting(h http.Handler, read *bytes.Buffer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = struct {
			io.Reader
			io.Closer
		}{io.TeeReader(r.Body, read), r.Body}
		h.ServeHTTP(w, r)
	})
}

// Whatever comes and is answered, a handler that is logged reads and says on the wire what
// it would without, byte for byte, and it leaves the record that is due.
func TestBytesPassUnchanged(t *testing.T) {
	for name, tt := range passing {
		t.Run(name, func(t *testing.T) {
			body := tt.body
			if body == "" {
				body = review
			}
			raw := rawRequest(tt.request, body)
			var wantRead bytes.Buffer
			want := wire(t, noting(tt.handler, &wantRead), raw)
			for _, mode := range modes {
				e := newExporter(t)
				c := newClient(t, e, client.Config{Mode: mode})
				var read bytes.Buffer
				said := wire(t, Log(noting(tt.handler, &read), c, Options{}), raw)
				if mode != client.Batch && tt.streams {
					want, said = verdict(t, want), verdict(t, said)
				}
				if said != want && (mode == client.Batch || name != "hijacked") { // which is not possible there
					t.Errorf("%s: the answer: got\n%.2000q\nwant\n%.2000q", mode, said, want)
				}
				if !bytes.Equal(read.Bytes(), wantRead.Bytes()) {
					t.Errorf("%s: the request: got %d bytes, want %d, or others", mode, read.Len(), wantRead.Len())
				}
				records, lost := stored(t, c, e)
				if len(lost) != 0 {
					t.Errorf("%s: lost: got %v, want nothing", mode, lost)
				}
				if mode == client.Batch || name != "hijacked" {
					checkRecord(t, mode, records, tt.want, tt.code)
				}
			}
		})
	}
}

// verdict is what the API server reads of an answer: its status and its body.
func verdict(t *testing.T, said string) string {
	t.Helper()
	if !strings.HasPrefix(said, "HTTP/") {
		return said
	}
	for strings.HasPrefix(said, "HTTP/1.1 1") { // informational
		_, said, _ = strings.Cut(said, "\r\n\r\n")
	}
	r, err := http.ReadResponse(bufio.NewReader(strings.NewReader(said)), &http.Request{Method: http.MethodPost})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	return fmt.Sprint(r.StatusCode, string(body), err)
}

// checkRecord wants one record, whose decision and failure begin so, or none.
func checkRecord(t *testing.T, mode client.Mode, records []record, want string, code int) {
	t.Helper()
	if want == "" {
		if len(records) != 0 {
			t.Errorf("%s: got %d records, want none", mode, len(records))
		}
		return
	}
	if len(records) != 1 {
		t.Errorf("%s: got %d records, want one of %q", mode, len(records), want)
		return
	}
	r := records[0]
	if got := strings.TrimSpace(string(r.Decision) + " " + r.Failure); !strings.HasPrefix(got, strings.TrimSpace(want)) {
		t.Errorf("%s: got %q, want %q", mode, got, want)
	}
	if r.Code != code {
		t.Errorf("%s: code: got %d, want %d", mode, r.Code, code)
	}
	if r.WebhookPath != "/validate" || r.DurationSeconds <= 0 || r.Timestamp.IsZero() || r.EventType != decision.AdmissionReview || r.Process != decision.Admission || r.Sequence != 1 {
		t.Errorf("%s: got %+v, want what every record has", mode, r.Record)
	}
	if r.Object != nil || strings.Contains(fmt.Sprintf("%+v", r.Record), "s3cret") {
		t.Errorf("%s: got contents that nobody asked for: %+v", mode, r.Record)
	}
	if r.Decision != decision.Error && (r.RequestUID != uid || r.RequestUsername != "alice") {
		t.Errorf("%s: got %+v, want who has asked", mode, r.Record)
	}
}

// A panic goes on with its value, and with the stack that shows where it began. What the
// handler has written before is held no more.
func TestPanicsGoOn(t *testing.T) {
	for _, mode := range modes {
		c := newClient(t, newExporter(t), client.Config{Mode: mode})
		boom := errors.New("boom")
		h := Log(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte("{"))
			panicsHere(boom)
		}), c, Options{})
		func() {
			defer func() {
				if p := recover(); p != any(boom) {
					t.Errorf("%s: got %v, want that of the handler", mode, p)
				}
				if !strings.Contains(string(debug.Stack()), "webhook.panicsHere") {
					t.Errorf("%s: the stack does not show where it began", mode)
				}
			}()
			serveOne(h, review)
		}()
		if err := c.Flush(t.Context()); err != nil {
			t.Error(err)
		}
		if used := h.(*handler).memory.used.Load(); used != 0 {
			t.Errorf("%s: memory: got %d bytes, want none", mode, used)
		}
	}
}

//go:noinline
func panicsHere(v any) { panic(v) }

// GET and what has no body leave no record, and the handler gets what the server made.
func TestOtherRequestsAreNotTouched(t *testing.T) {
	e := newExporter(t)
	c := newClient(t, e, client.Config{})
	h := Log(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, wrapped := w.(*answer); wrapped {
			t.Error("the answer to a GET is wrapped")
		}
	}), c, Options{})
	get := httptest.NewRequest(http.MethodGet, "/healthz", nil)
	get.Header.Set("Content-Type", "application/json")
	h.ServeHTTP(httptest.NewRecorder(), get)
	noBody := Log(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Body != http.NoBody {
			t.Error("got a body, want http.NoBody, with which handlers compare it")
		}
	}), c, Options{})
	post := httptest.NewRequest(http.MethodPost, "/validate", http.NoBody)
	post.Header.Set("Content-Type", "application/json")
	noBody.ServeHTTP(httptest.NewRecorder(), post)
	records, _ := stored(t, c, e)
	if len(records) != 1 || records[0].Decision != decision.Error || records[0].RequestUID != "" {
		t.Errorf("got %+v, want one record of the POST that is no review", records)
	}
}

// post sends a review and returns the status and the body of the answer.
func post(ctx context.Context, c *http.Client, url, body string) (status int, answer string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/validate", strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := c.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

func mustPost(t *testing.T, url, want string) {
	t.Helper()
	status, answer, err := post(within(t), http.DefaultClient, url, review)
	if err != nil || status != http.StatusOK || answer != want {
		t.Fatalf("answer: got %d %q, %v, want %q", status, answer, err, want)
	}
}

func serve(t *testing.T, h http.Handler) (url string) {
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	s.Start()
	t.Cleanup(s.Close)
	return s.URL
}

// In Batch an answer has left although the record before it hangs in the making, there is
// no room for more, and the exporter is away; and all that is lost is counted.
func TestBatchNeverWaits(t *testing.T) {
	e := newExporter(t)
	e.Stall()
	c := newClient(t, e, client.Config{MaxBufferedBytes: client.MinBufferedBytes})
	hanging, release := make(chan struct{}, 1), make(chan struct{})
	url := serve(t, Log(answers(denied), c, Options{Observe: func(Outcome) {
		select {
		case hanging <- struct{}{}:
		default:
		}
		<-release
	}}))
	mustPost(t, url, denied)
	<-hanging                   // for good, as far as these answers know
	for c.Later(0, func() {}) { // there is no room for another
		continue
	}
	const more = 3
	for range more {
		mustPost(t, url, denied)
	}
	if lost := c.Stats().Lost; lost[decision.Deny] != more {
		t.Errorf("lost: got %v, want %d denies", lost, more)
	}
	close(release)
	const filling = 400 // records, in a buffer for some dozens
	for range filling {
		mustPost(t, url, denied)
	}
	made := make(chan struct{})
	for !c.Later(0, func() { close(made) }) {
		continue
	}
	<-made
	e.Resume()
	if err := c.Flush(within(t)); err != nil {
		t.Fatal(err)
	}
	mustPost(t, url, denied) // which shows the gap before it
	records, lost := stored(t, c, e)
	if want := 1 + more + filling + 1; len(records)+lost["deny"] != want || lost["deny"] <= more || len(lost) != 1 {
		t.Errorf("got %d records and %v lost, want %d together", len(records), lost, want)
	}
	gaps := 0
	for i, last := 0, uint64(0); i < len(records); i++ {
		if records[i].Sequence <= last {
			t.Fatalf("record %d: got number %d after %d", i, records[i].Sequence, last)
		}
		gaps += int(records[i].Sequence - last - 1)
		last = records[i].Sequence
	}
	if gaps != lost["deny"] {
		t.Errorf("gaps: got %d, want the %d that are lost", gaps, lost["deny"])
	}
}

// In the modes that block an answer leaves when its record is durable, and not before.
func TestAnswerWaitsForItsRecord(t *testing.T) {
	for _, mode := range modes[1:] {
		e := newExporter(t)
		e.Hold()
		c := newClient(t, e, client.Config{Mode: mode})
		url := serve(t, Log(answers(denied), c, Options{}))
		left := make(chan error, 1)
		go func() {
			_, _, err := post(within(t), http.DefaultClient, url, review)
			left <- err
		}()
		if err := e.WaitUntil(within(t), func() bool { return e.Held() == 1 }); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-left:
			t.Fatalf("%s: the answer has left (%v) before its record is durable", mode, err)
		default:
		}
		mustPost(t, serve(t, Log(answers(allowed), c, Options{})), allowed) // without a record
		e.Release()
		if err := <-left; err != nil {
			t.Errorf("%s: %v", mode, err)
		}
	}
}

// BlockingStrict answers 500 where a record is not durable in time, of which nothing but
// that leaves; Blocking answers as the handler did.
func TestExporterThatHangs(t *testing.T) {
	for _, mode := range modes[1:] {
		e := newExporter(t)
		e.Hold()
		c := newClient(t, e, client.Config{Mode: mode, Timeout: 10 * time.Millisecond})
		said := wire(t, Log(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Engine", "secret")
			answers(denied)(w, r)
		}), c, Options{}), rawRequest("", review))
		e.Release()
		records, lost := stored(t, c, e)
		if len(lost) != 0 {
			t.Errorf("%s: lost: got %v, want nothing: what was taken comes late", mode, lost)
		}
		if mode == client.Blocking {
			if !strings.HasPrefix(said, "HTTP/1.1 200 OK") || !strings.HasSuffix(said, denied) {
				t.Errorf("Blocking: got %q, want the answer", said)
			}
			checkRecord(t, mode, records, "deny", 403)
			continue
		}
		if !strings.HasPrefix(said, "HTTP/1.1 500 ") || strings.Contains(said, "secret") || strings.Contains(said, uid) {
			t.Errorf("BlockingStrict: got %q, want 500 and nothing of the answer", said)
		}
		if len(records) != 2 || records[0].Decision != decision.Deny || records[1].Decision != decision.Error ||
			!strings.HasPrefix(records[1].Failure, "answered 500 instead of deny: ") || records[1].Code != 500 || records[1].RequestUID != uid || records[1].Sequence != 2 {
			t.Errorf("BlockingStrict: got %+v, want the denial and that it was not answered", records)
		}
	}
}

// An answer that is too large to be held leaves without waiting in Blocking, and is
// refused in BlockingStrict.
func TestAnswerThatIsTooLargeToHold(t *testing.T) {
	large := strings.Replace(denied, "no", strings.Repeat("n", maxHeld), 1)
	for _, mode := range modes[1:] {
		e := newExporter(t)
		c := newClient(t, e, client.Config{Mode: mode})
		h := Log(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("X-Engine", "e")
			for piece := range slices.Chunk([]byte(large), 1000) {
				_, _ = w.Write(piece)
			}
		}), c, Options{})
		said := verdict(t, wire(t, h, rawRequest("", review)))
		records, _ := stored(t, c, e)
		if used := h.(*handler).memory.used.Load(); used != 0 {
			t.Errorf("%s: memory: got %d bytes, want none", mode, used)
		}
		if mode == client.Blocking {
			if said != fmt.Sprint(200, large, nil) {
				t.Errorf("Blocking: got %.200q, want the answer", said)
			}
			continue
		}
		if !strings.HasPrefix(said, "500") || len(said) > 200 {
			t.Errorf("BlockingStrict: got %.200q, want 500", said)
		}
		if len(records) != 1 || !strings.Contains(records[0].Failure, "too large to hold") {
			t.Errorf("BlockingStrict: got %+v, want that the answer was too large", records)
		}
	}
}

// What is kept of all reviews at a time is bounded. A review beyond it passes, and is
// counted; in BlockingStrict it is refused.
func TestMemoryIsBounded(t *testing.T) {
	for _, mode := range modes {
		e := newExporter(t)
		c := newClient(t, e, client.Config{Mode: mode})
		h := Log(answers(denied), c, Options{}).(*handler)
		h.memory.grow(maxMemory)
		want := 200
		if mode == client.BlockingStrict {
			want = 500
		}
		url := serve(t, h)
		if status, _, err := post(within(t), http.DefaultClient, url, review); status != want || err != nil {
			t.Errorf("%s: got %d, %v, want %d", mode, status, err, want)
		}
		if used := h.memory.used.Load(); used != maxMemory {
			t.Errorf("%s: memory: got %d bytes, want %d", mode, used, maxMemory)
		}
		h.memory.grow(-maxMemory)
		mustPost(t, url, denied)
		records, lost := stored(t, c, e)
		if len(records) != 1 || lost["unspecified"] != 1 || len(lost) != 1 {
			t.Errorf("%s: got %d records and %v lost, want one each", mode, len(records), lost)
		}
		if used := h.memory.used.Load(); used != 0 {
			t.Errorf("%s: memory in the end: got %d bytes, want none", mode, used)
		}
	}
}

// A review for which there is no memory gives back what it has at once: others may be
// complete with it.
func TestLostReviewGivesItsMemoryBack(t *testing.T) {
	const free = 64 << 10
	c := newClient(t, newExporter(t), client.Config{})
	h := Log(nil, c, Options{}).(*handler)
	h.memory.grow(maxMemory - free)
	grown := false
	h.next = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		for buf, err := make([]byte, 1<<10), error(nil); err == nil; {
			_, err = r.Body.Read(buf)
			grown = grown || h.memory.used.Load() > maxMemory-free
		}
		if used := h.memory.used.Load(); used != maxMemory-free {
			t.Errorf("memory: got %d bytes, want %d", used, maxMemory-free)
		}
	})
	serveOne(h, strings.Replace(review, `"dev"`, `"`+strings.Repeat("g", 2*free)+`"`, 1))
	if err := c.Flush(within(t)); err != nil {
		t.Error(err)
	}
	if lost := c.Stats().Lost; lost[client.Unspecified] != 1 || !grown {
		t.Errorf("lost: got %v, grown %t, want one that was kept as far as there was room", lost, grown)
	}
}

// A fault in this package costs the record, and no answer.
func TestFaults(t *testing.T) {
	for _, mode := range modes {
		var log bytes.Buffer
		e := newExporter(t)
		c := newClient(t, e, client.Config{Mode: mode})
		h := Log(answers(denied), c, Options{
			Log:     slog.New(slog.NewTextHandler(&log, nil)),
			Observe: func(Outcome) { panic("s3cret") },
		}).(*handler)
		x, _ := h.begin(httptest.NewRequest(http.MethodPost, "/validate", strings.NewReader(review)))
		x.take(nil, []byte("s3cret")) // a fault
		x.take(nil, []byte("s3cret"))
		h.release(x)
		mustPost(t, serve(t, h), denied)
		records, lost := stored(t, c, e)
		if len(records) != 1 || lost["unspecified"] != 1 || len(lost) != 1 {
			t.Errorf("%s: got %d records and %v lost, want the record, and one lost by the fault", mode, len(records), lost)
		}
		if n := strings.Count(log.String(), "level=ERROR"); n != 1 || strings.Contains(log.String(), "s3cret") {
			t.Errorf("%s: log: got %s, want the first fault, without what it says", mode, log.String())
		}
	}
}

// In HTTP/2 a stream can end in the middle of the answer.
func TestStreamThatIsReset(t *testing.T) {
	for _, mode := range modes {
		e := newExporter(t)
		c := newClient(t, e, client.Config{Mode: mode})
		reached, ended := make(chan struct{}), make(chan struct{})
		h := Log(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			answers(denied)(w, r)
			close(reached)
			<-r.Context().Done()
			panic(http.ErrAbortHandler) // as proxies do
		}), c, Options{})
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer close(ended)
			h.ServeHTTP(w, r)
		}))
		s.EnableHTTP2 = true
		s.StartTLS()
		ctx, cancel := context.WithCancel(within(t))
		go func() { <-reached; cancel() }()
		if _, answer, err := post(ctx, s.Client(), s.URL, review); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %q, %v, want canceled", mode, answer, err)
		}
		<-ended
		s.Close()
		records, _ := stored(t, c, e)
		if len(records) != 1 || records[0].Decision != decision.Error || records[0].Failure != "the client went away before the answer" || records[0].RequestUID != uid {
			t.Errorf("%s: got %+v, want the request and that the client went away", mode, records)
		}
	}
}

// A request that ends before its length is told, though the handler has answered.
func TestRequestThatIsCutOff(t *testing.T) {
	e := newExporter(t)
	c := newClient(t, e, client.Config{})
	url := serve(t, Log(answers(denied), c, Options{}))
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST /validate HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(review)+1, review)
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(conn); err != nil {
		t.Fatal(err)
	}
	records, _ := stored(t, c, e)
	if len(records) != 1 || records[0].Decision != decision.Error || records[0].RequestUID != uid ||
		!slices.Contains([]string{"the request was cut off", "the client went away before the answer"}, records[0].Failure) {
		t.Errorf("got %+v, want that the request was cut off", records)
	}
}

// A proxy may read on when its handler has returned. Nothing of that is taken for
// another review, and the record is made once.
func TestReadingGoesOnAfterTheEnd(t *testing.T) {
	e := newExporter(t)
	c := newClient(t, e, client.Config{})
	pr, pw := io.Pipe()
	reading, read := make(chan struct{}), make(chan struct{})
	h := Log(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := r.Body
		if _, err := io.ReadFull(body, make([]byte, len(review))); err != nil {
			t.Error(err)
		}
		go func() {
			defer close(read)
			close(reading)
			_, _ = body.Read(make([]byte, 10))
		}()
		<-reading
		_, _ = io.WriteString(w, denied)
	}), c, Options{})
	r := httptest.NewRequest(http.MethodPost, "/validate", pr)
	r.Header.Set("Content-Type", "application/json")
	go func() { _, _ = io.WriteString(pw, review) }()
	h.ServeHTTP(httptest.NewRecorder(), r)
	_, _ = io.WriteString(pw, "x")
	<-read
	records, _ := stored(t, c, e)
	checkRecord(t, client.Batch, records, "deny", 403)
}

// A review that leaves no record is not put off: that costs more than all else of it.
func TestPassedReviewIsNotPutOff(t *testing.T) {
	e := newExporter(t)
	c := newClient(t, e, client.Config{})
	release := make(chan struct{})
	c.Later(0, func() { <-release })
	var got []Outcome
	o := Options{Observe: func(o Outcome) { o.Duration = 0; got = append(got, o) }}
	warned := strings.Replace(allowed, "true", `true,"warnings":["w"]`, 1)
	serveOne(Log(answers(allowed), c, o), review)
	o.Decisions = []decision.Decision{decision.Deny}
	serveOne(Log(answers(warned), c, o), review)
	large := strings.Replace(review, "s3cret", strings.Repeat("s", 1<<20), 1)
	serveOne(Log(answers(allowed), c, o), large)
	if want := []Outcome{{Decision: decision.Allow}, {Decision: decision.Warn}, {Decision: decision.Allow}}; !slices.Equal(got, want) {
		t.Errorf("observed before what was put off: got %+v, want %+v", got, want)
	}
	o.Preset = Gatekeeper // a warning may be a part of any of them
	serveOne(Log(answers(warned), c, o), review)
	serveOne(Log(answers(allowed), c, o), strings.Replace(review, uid, "another", 1))
	if len(got) != 3 {
		t.Errorf("observed: got %+v, want no more as long as a function hangs", got)
	}
	close(release)
	if err := c.Flush(within(t)); err != nil {
		t.Fatal(err)
	}
	if len(got) != 5 {
		t.Errorf("observed: got %d outcomes, want 5", len(got))
	}
	stored(t, c, e)
}

// What is observed is what was decided, recorded or not.
func TestObserve(t *testing.T) {
	for _, mode := range modes {
		e := newExporter(t)
		c := newClient(t, e, client.Config{Mode: mode})
		var got []Outcome
		o := Options{Observe: func(o Outcome) { o.Duration = min(o.Duration, 1); got = append(got, o) }}
		for _, text := range []string{denied, allowed, "<html>"} {
			serveOne(Log(answers(text), c, o), review)
			if err := c.Flush(within(t)); err != nil { // calls overlap otherwise
				t.Fatal(err)
			}
		}
		serveOne(Log(answers(denied), c, o), "{}")
		stored(t, c, e)
		want := []Outcome{{decision.Deny, 1, false, 1}, {decision.Allow, 0, false, 1}, {decision.Error, 1, false, 1}, {decision.Error, 1, true, 1}}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %+v, want %+v", mode, got, want)
		}
	}
}

func serveOne(h http.Handler, body string) {
	r := httptest.NewRequest(http.MethodPost, "/validate", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	h.ServeHTTP(httptest.NewRecorder(), r)
}

func sample(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../testdata/samples/gatekeeper/admission/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
