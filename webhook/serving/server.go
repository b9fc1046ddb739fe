package serving

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// idleTimeout is longer than the 90 seconds after which a client written in Go closes an
// idle connection: a server that closes it may cross a request on its way.
const idleTimeout = 2 * time.Minute

// cutOffTimeout is what handlers get to notice that their contexts have ended.
const cutOffTimeout = time.Second

// Bounds of the bodies on a connection of HTTP/2 that a handler has not read. By default
// Go has 1 MiB for each: one body that is not read would hold up all others on its
// connection, and each connection could take that much.
const (
	connectionBuffer = 256 << 10
	streamBuffer     = 64 << 10 // no less: clients send that much before they know our bound
)

const (
	// maxHeaderBytes bounds the header of a request.
	maxHeaderBytes = 64 << 10
	// maxStreams bounds the requests at a time on a connection of HTTP/2.
	maxStreams = 100
)

// Server serves a handler over TLS by the rules of this package.
type Server struct {
	config       Config
	certificates *certificates
	http         http.Server
	inFlight     atomic.Int64
	goodbye      atomic.Bool // each answer asks the client to close its connection

	leaving     context.Context // done when the server is to stop
	leave       context.CancelFunc
	requests    context.Context // done when what is in flight was cut off
	cutOff      context.CancelFunc
	begun, over atomic.Bool                          // Run was called, and has returned
	listener    atomic.Pointer[listener]             // nil until Run listens
	after       func(time.Duration) <-chan time.Time // time.After but in tests
}

// New checks c. It neither listens nor needs a certificate to be there.
func New(c Config) (*Server, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	c.setDefaults()
	s := &Server{config: c, certificates: newCertificates(c.TLSDir, c.Log), after: time.After}
	s.leaving, s.leave = context.WithCancel(context.Background())
	s.requests, s.cutOff = context.WithCancel(context.Background())
	settings := c.TLS.Clone()
	settings.Certificates, settings.GetCertificate = nil, s.certificates.getCertificate
	s.http = http.Server{
		Handler:           http.HandlerFunc(s.serveHTTP),
		TLSConfig:         settings,
		ReadHeaderTimeout: c.HeaderTimeout,
		WriteTimeout:      c.RequestTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxStreams, WriteByteTimeout: c.RequestTimeout,
			MaxReceiveBufferPerConnection: connectionBuffer, MaxReceiveBufferPerStream: streamBuffer,
		},
		// Not the context of Run, whose end must not cancel what is in flight.
		BaseContext: func(net.Listener) context.Context { return s.requests },
		ErrorLog:    errorLog(c.Log),
	}
	return s, nil
}

func (s *Server) serveHTTP(w http.ResponseWriter, r *http.Request) {
	running := s.inFlight.Add(1)
	defer s.inFlight.Add(-1)
	if s.goodbye.Load() {
		w.Header().Set("Connection", "close") // with HTTP/2 this sends GOAWAY
	}
	if running > int64(s.config.MaxRequests) {
		http.Error(w, "too many requests at a time", http.StatusServiceUnavailable)
		return
	}
	if r.ContentLength != 0 { // with HTTP/2 the body is not http.NoBody
		// Both protocols of net/http can do this, and forget it when the body has ended.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.config.BodyTimeout))
	}
	s.config.Handler.ServeHTTP(w, r)
}

// Run serves until ctx is done, and then by the rules of the package. It returns once Drain
// has. The error says what was cut off, nil that nothing was. Run is called once.
func (s *Server) Run(ctx context.Context) error {
	if s.begun.Swap(true) {
		return errors.New("serving: Run was called before")
	}
	defer s.cutOff()
	defer s.leave()
	defer s.over.Store(true)
	defer context.AfterFunc(ctx, s.leave)()
	var err error
	if ctx.Err() == nil {
		err = s.serve()
	}
	drain, cancel := context.WithTimeout(context.Background(), s.config.DrainTimeout)
	defer cancel()
	return errors.Join(err, s.config.Drain(drain))
}

// serve listens, and returns when nothing is in flight any more, or is cut off.
func (s *Server) serve() error {
	plain, err := net.Listen("tcp", s.config.Address)
	if err != nil {
		return err
	}
	l := newListener(plain, s.config.MaxConnections)
	failed := make(chan error, 1)
	go func() { failed <- s.http.ServeTLS(l, "", "") }()
	s.listener.Store(l)
	s.config.Log.Info("serving", "address", l.Addr().String())
	select {
	case err := <-failed:
		return errors.Join(fmt.Errorf("serving: %w", err), s.finish())
	case <-s.leaving.Done():
	}
	s.config.Log.Info("stopping: not ready any more", "servingOnFor", s.config.ShutdownDelay.String())
	s.serveOn()
	err = s.finish()
	if failure := <-failed; !errors.Is(failure, http.ErrServerClosed) {
		err = errors.Join(err, fmt.Errorf("serving: %w", failure))
	}
	return err
}

// serveOn waits for ShutdownDelay. At first nobody knows yet that this server is leaving,
// and a client that it sent away would come back. In the second half each answer asks
// the client to close its connection, so that in the end no request is on its way.
func (s *Server) serveOn() {
	half := s.config.ShutdownDelay / 2
	<-s.after(half)
	s.goodbye.Store(true)
	<-s.after(s.config.ShutdownDelay - half)
}

// finish takes no more connections, and waits for the requests in flight.
func (s *Server) finish() error {
	ctx, cancel := context.WithTimeout(context.Background(), s.config.FinishTimeout)
	defer cancel()
	if s.http.Shutdown(ctx) == nil && s.handlersReturned(ctx) {
		return nil
	}
	cut := s.inFlight.Load()
	// In this order, as a handler that gives up would still answer 200.
	err := s.http.Close()
	s.cutOff()
	brief, cancelBrief := context.WithTimeout(context.Background(), cutOffTimeout)
	defer cancelBrief()
	s.handlersReturned(brief)
	if cut > 0 {
		err = errors.Join(err, fmt.Errorf("serving: %d requests were cut off", cut))
	}
	return err
}

// handlersReturned waits until no handler runs, false if ctx ends first. Shutdown does not
// wait for those whose stream of HTTP/2 was reset, yet they may have something to drain.
func (s *Server) handlersReturned(ctx context.Context) bool {
	tick := time.NewTicker(time.Millisecond) // net/http waits for connections in the same way
	defer tick.Stop()
	for s.inFlight.Load() > 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// Addr is where the server listens, nil before it does.
func (s *Server) Addr() net.Addr {
	if l := s.listener.Load(); l != nil {
		return l.Addr()
	}
	return nil
}

// Certificate returns the certificate in use. The error says why there is none.
func (s *Server) Certificate() (*tls.Certificate, error) { return s.certificates.getCertificate(nil) }

// Ready returns nil if a TLS handshake with the own listener presents the certificate in
// use, everything in WaitFor is there, and the server was not told to stop. It is a
// healthz.Checker of controller-runtime.
func (s *Server) Ready(r *http.Request) error {
	l := s.listener.Load()
	if l == nil {
		return errors.New("the server does not listen yet")
	}
	own := ownHandshake(l.Addr().String(), s.certificates)
	return readiness(s.leaving, append([]Check{own}, s.config.WaitFor...)...)(r)
}

// Live returns nil unless a restart may help: the server has ended, or its listener answers
// no TLS handshake though it has a certificate and room for connections. It is nil while
// the server starts, waits for something, or stops.
func (s *Server) Live(r *http.Request) error {
	if s.over.Load() {
		return errors.New("the server has ended")
	}
	l := s.listener.Load()
	if _, err := s.certificates.getCertificate(nil); l == nil || s.leaving.Err() != nil || err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), checkTimeout)
	defer cancel()
	_, err := handshake(ctx, l.Addr().String())
	if err == nil || l.crowded() || s.leaving.Err() != nil {
		return nil
	}
	return fmt.Errorf("own listener: %w", err)
}
