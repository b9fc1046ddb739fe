// Package tap is a reverse proxy for an admission webhook that cannot be changed: it
// stands between the API server and the engine, in the engine's pod.
//
//	proxy, err := tap.New(tap.Config{Upstream: "https://127.0.0.1:8444", CAFile: "/certs/ca.crt"})
//	...
//	server, err := serving.New(serving.Config{
//		Handler: webhook.Log(proxy, client, options),
//		WaitFor: []serving.Check{{Name: "engine", Ready: proxy.Ready}},
//		...
//	})
//
// Requests and answers pass as streams, on every path, with their headers, trailers and
// 1xx answers. Only the headers of a single connection (Connection, Keep-Alive,
// Transfer-Encoding and the others of RFC 9110, section 7.6.1) are each side's own. The
// proxy adds no header. The first pieceBytes of a body are in memory, beside the buffers of
// connections.
//
//	tap.go       the handler: limits, time, what an engine that fails looks like
//	transport.go connections to the engine, and when a request may take another one
//	body.go      the body of a request, which two goroutines may read
//	engine.go    where the engine is, and whether it is the engine
//	health.go    log messages about it
//
// Towards the engine it speaks HTTP/1.1. It imports the standard library only.
package tap

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"mime"
	"net/http"
	"net/http/httputil"
	"os"
	"strings"
	"sync"
	"time"
)

// MaxBodyBytes bounds the body of a request; the answer to a larger one is 413. The API
// server takes objects of 3 MiB: a review has two of them, and escapes.
const MaxBodyBytes = 32 << 20

// Config configures a Tap. Only Upstream is needed.
type Config struct {
	// Upstream is where the engine listens: https://127.0.0.1:8444, or http:// and a loopback
	// address. It has no path: requests keep their paths.
	Upstream string
	// CAFile holds the certificates of the CAs that may have issued the engine's, in PEM
	// form. It is read for each new connection, so that a CA that is rotated is in use at
	// once; while it cannot be read the one before stays in use. It may be missing at
	// first from a directory that is there: no engine is trusted then. Empty: the CAs of
	// the system.
	CAFile string
	// ServerName is the name that the engine's certificate must have. Default: the host
	// of Upstream, or, on a loopback address, any of Names.
	ServerName string
	// Names returns the names that this process serves under. An engine on a loopback
	// address may have a certificate for one of them: API servers that called the
	// engine directly accepted it. nil: none.
	Names func() []string
	// Log is told when the engine begins to fail, fails in another way, or works again.
	// It is told nothing about requests. nil: nothing is logged.
	Log *slog.Logger
	// Observe is told how each request has ended. It must not block. nil: not called.
	Observe func(Result, time.Duration)
}

// Result is how a request has ended.
type Result string

// The results.
const (
	Answered    Result = "Answered"    // the engine's answer has passed, whatever it was
	Unreachable Result = "Unreachable" // no answer of the engine: 502
	TimedOut    Result = "TimedOut"    // none within ?timeout=: 504
	TooLarge    Result = "TooLarge"    // body over MaxBodyBytes: 413
	BadBody     Result = "BadBody"     // the body ended early or came too slowly, or Upgrade cannot be met: 400 or 408
	CutOff      Result = "CutOff"      // the engine's answer broke off, and so did ours
	ClientGone  Result = "ClientGone"  // nobody waits for the answer any more
)

// Results lists every Result.
func Results() []Result {
	return []Result{Answered, Unreachable, TimedOut, TooLarge, BadBody, CutOff, ClientGone}
}

// Tap is the proxy, an http.Handler.
type Tap struct {
	engine    *engine
	transport *transport
	proxy     *httputil.ReverseProxy
	observe   func(Result, time.Duration)
}

// New returns a proxy. It touches the CA file and no network: the engine may come later.
func New(c Config) (*Tap, error) {
	log := c.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	e, err := newEngine(c, log)
	if err != nil {
		return nil, err
	}
	t := &Tap{engine: e, transport: newTransport(e), observe: c.Observe}
	if t.observe == nil {
		t.observe = func(Result, time.Duration) {}
	}
	t.proxy = &httputil.ReverseProxy{
		Rewrite:        t.rewrite,
		Transport:      t.transport,
		ModifyResponse: t.begin,
		ErrorHandler:   t.fail,
		BufferPool:     newBuffers(),
		ErrorLog:       quiet(),
	}
	return t, nil
}

// Ready returns nil when the engine answers: with a TLS handshake and a certificate that
// verifies, or on http:// by taking a connection.
func (t *Tap) Ready(ctx context.Context) error {
	conn, err := t.engine.dial(ctx)
	if err != nil {
		return err
	}
	return conn.Close()
}

// Close closes the connections to the engine that no request uses.
func (t *Tap) Close() { t.transport.http.CloseIdleConnections() }

// errTimeout is the cause of the end of a request whose time is over.
var errTimeout = errors.New("the timeout of the API server has passed")

// exchange is one request and what becomes of it.
type exchange struct {
	w      http.ResponseWriter
	body   body
	result Result
	asked  bool  // the request was on its way to the engine
	conn   *conn // that the request had last; nil: none
}

type exchangeKey struct{}

func exchangeOf(ctx context.Context) *exchange { return ctx.Value(exchangeKey{}).(*exchange) }

// ServeHTTP brings r to the engine and its answer back.
func (t *Tap) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	x := &exchange{w: w, result: CutOff} // unless something else is found out
	defer func() { t.observe(x.result, time.Since(began)) }()
	if r.ContentLength > MaxBodyBytes {
		x.refuse(TooLarge)
		return
	}
	if malformed(r) {
		x.refuse(BadBody)
		return
	}
	ctx := context.WithValue(r.Context(), exchangeKey{}, x)
	if limit := reviewTimeout(r); limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, errTimeout)
		defer cancel()
	}
	r = r.WithContext(ctx)
	x.body.source = http.MaxBytesReader(w, r.Body, MaxBodyBytes)
	defer x.body.release()
	defer x.endBodyAt(ctx)()
	t.proxy.ServeHTTP(w, r)
	if x.result == CutOff {
		x.result = Answered
	}
}

// endBodyAt has the reading of a body that is still to come end with the time of ctx. After
// stop, which waits if it must, the connection is left alone.
func (x *exchange) endBodyAt(ctx context.Context) (stop func()) {
	done := make(chan struct{})
	cancel := context.AfterFunc(ctx, func() {
		defer close(done)
		if errors.Is(context.Cause(ctx), errTimeout) && !x.body.ended() {
			// Where that is not possible the server's own deadline holds.
			_ = http.NewResponseController(x.w).SetReadDeadline(time.Now())
		}
	})
	return func() {
		if !cancel() {
			<-done
		}
	}
}

// reviewTimeout is how long the API server waits for the answer to r: "?timeout=10s" on
// the path of a webhook. 0: r does not say, or is no review.
func reviewTimeout(r *http.Request) time.Duration {
	if r.Method != http.MethodPost || !strings.Contains(r.URL.RawQuery, "timeout=") {
		return 0
	}
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != "application/json" {
		return 0
	}
	limit, err := time.ParseDuration(r.URL.Query().Get("timeout"))
	if err != nil {
		return 0
	}
	return limit
}

// rewrite undoes what a general reverse proxy does to a request.
func (t *Tap) rewrite(p *httputil.ProxyRequest) {
	for _, key := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
		if values, ok := p.In.Header[key]; ok {
			p.Out.Header[key] = values
		}
	}
	out := p.Out
	out.URL.Scheme, out.URL.Host = t.engine.url.Scheme, t.engine.url.Host
	out.URL.RawQuery, out.URL.ForceQuery = p.In.URL.RawQuery, p.In.URL.ForceQuery
	// The map that fills when the body has ended, not a copy of its keys.
	out.Trailer = p.In.Trailer
	if path, _, _ := strings.Cut(p.In.RequestURI, "?"); strings.HasPrefix(path, "/") && !strings.HasPrefix(path, "//") {
		out.URL.Opaque = path // as it was escaped
	}
	if len(out.Trailer) > 0 {
		out.ContentLength = -1 // in HTTP/1.1 only a body in chunks has trailers
	}
}

// malformed reports whether r has a method or a target that HTTP/1.1 does not allow: a
// client of HTTP/2 can say one that would be two requests, or another.
func malformed(r *http.Request) bool {
	notMethod := func(c rune) bool { return c <= ' ' || c >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, c) }
	notTarget := func(c rune) bool { return c <= ' ' || c == 0x7f }
	return r.Method == "" || strings.ContainsFunc(r.Method, notMethod) ||
		r.RequestURI == "" || strings.ContainsFunc(r.RequestURI, notTarget)
}

// begin sees the head of an answer of the engine. It fails if the status cannot be passed
// on: none is below 100, and no protocol changes unasked.
func (t *Tap) begin(res *http.Response) error {
	switched := res.StatusCode == http.StatusSwitchingProtocols
	if res.StatusCode < http.StatusOK && !switched || switched && res.Request.Header.Get("Upgrade") == "" {
		return fmt.Errorf("the answer has the unexpected status %d", res.StatusCode)
	}
	t.engine.health.works()
	x := exchangeOf(res.Request.Context())
	for _, key := range []string{"Content-Type", "Date"} {
		if _, ok := res.Header[key]; !ok {
			x.w.Header()[key] = nil // else the server would make one up
		}
	}
	if !switched { // whose body is written to, too
		res.Body = &answer{ReadCloser: res.Body, x: x, ctx: res.Request.Context()}
	}
	return nil
}

// answer is the body of an answer. It finds out who cuts it off.
type answer struct {
	io.ReadCloser
	x   *exchange
	ctx context.Context
}

func (a *answer) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		switch {
		case errors.Is(context.Cause(a.ctx), errTimeout):
			a.x.result = TimedOut
		case a.ctx.Err() != nil:
			a.x.result = ClientGone
		}
	}
	return n, err
}

// fail answers a request that the engine has not answered.
func (t *Tap) fail(w http.ResponseWriter, r *http.Request, err error) {
	x := exchangeOf(r.Context())
	switch {
	case errors.As(err, new(*http.MaxBytesError)):
		x.refuse(TooLarge)
	case errors.Is(context.Cause(r.Context()), errTimeout):
		if r.ProtoMajor == 1 {
			// The deadline of endBodyAt may have met what the server reads beside us: the
			// next request on the connection would be given up at once.
			w.Header().Set("Connection", "close")
		}
		x.refuse(TimedOut)
	case r.Context().Err() != nil:
		x.result = ClientGone
		x.readRest()
		panic(http.ErrAbortHandler) // nobody is there to answer
	case x.body.failure() != nil:
		x.refuse(BadBody)
	case !x.asked: // a change of protocol that cannot be
		x.refuse(BadBody)
	default:
		t.engine.health.fails(err)
		x.refuse(Unreachable)
	}
}

// refuse answers with what result stands for. The text goes into the messages of the API
// server, and has nothing of the request or of an error in it.
func (x *exchange) refuse(result Result) {
	x.result = result
	var code int
	var text string
	switch result {
	case TooLarge:
		code, text = http.StatusRequestEntityTooLarge, "the request is larger than 32 MiB"
	case TimedOut:
		x.readRest()
		code, text = http.StatusGatewayTimeout, "the engine gave no answer in time"
	case BadBody:
		code, text = http.StatusBadRequest, "the request ended early, or asks for an unsupported protocol"
		if errors.Is(x.body.failure(), os.ErrDeadlineExceeded) {
			code, text = http.StatusRequestTimeout, "the request came too slowly"
		}
	default:
		x.readRest()
		// The API server comes back through the Service, which knows when the engine is
		// ready: one that has just started may not know its policies yet.
		x.w.Header().Set("Connection", "close")
		code, text = http.StatusBadGateway, "the engine cannot be reached, or ended the connection without an answer"
	}
	http.Error(x.w, "docket tap: "+text, code)
}

// readRestTimeout is far beyond what the rest of a review takes that is under way.
const readRestTimeout = time.Second

// readRest reads what the engine has not: the record of a failure says what was asked.
func (x *exchange) readRest() {
	if x.body.failure() != nil {
		return
	}
	// Where that is not possible the server's own deadline holds.
	_ = http.NewResponseController(x.w).SetReadDeadline(time.Now().Add(readRestTimeout))
	x.body.drain()
}

// newBuffers returns the buffers through which answers are copied, those of verdicts
// nearly all: a verdict has some hundred bytes.
func newBuffers() httputil.BufferPool {
	return &buffers{sync.Pool{New: func() any { return new([8 << 10]byte) }}}
}

type buffers struct{ pool sync.Pool }

func (b *buffers) Get() []byte  { return b.pool.Get().(*[8 << 10]byte)[:] }
func (b *buffers) Put(p []byte) { b.pool.Put((*[8 << 10]byte)(p)) }

// quiet is a log for a library that logs what strangers send.
func quiet() *log.Logger { return log.New(io.Discard, "", 0) }
