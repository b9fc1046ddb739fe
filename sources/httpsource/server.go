package httpsource

import (
	"context"
	"crypto/tls"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/internal/fairconn"
)

const (
	// headerWait is how long a client may take over the header of a request, and over a
	// TLS handshake before it.
	headerWait = 10 * time.Second
	// idleWait is how long a connection may be idle between two requests. Clients written
	// in Go give it up after 90 seconds.
	idleWait = 3 * time.Minute
	// maxHeader bounds the header of a request, and maxTokenHeader one that may have a
	// token in it; net/http takes headerSlack beyond. What it makes of the header takes up
	// to ten times that (measured, with many short fields).
	maxHeader      = 4 << 10
	maxTokenHeader = 16 << 10
	headerSlack    = 4 << 10
	headerFactor   = 10
	// maxFields bounds the fields of a header. An engine sends fewer than ten.
	maxFields = 64
	// stopWait is how long a stop waits until the requests under way are answered, and
	// settleWait until those who lost patience are, and until what is under way in the
	// intake is durable. Only a queue that is full or a disk that hangs takes that long.
	stopWait   = 3 * time.Second
	settleWait = time.Second
)

// server serves the clients of one Run.
type server struct {
	protocol   Protocol
	limit      int // of one event
	token      config.SecretFile
	commitWait time.Duration
	stopWait   time.Duration
	bodyWait   time.Duration
	answerWait time.Duration
	freeBytes  int64
	failures   *failures
	committer  *committer
	listener   secured
	conns      *connections
	handlers   sync.WaitGroup
	table      *fairconn.Table
	small      places
	large      places
	left       sync.WaitGroup // those who wait for batches that nobody else does
	gzips      sync.Pool
}

func (s *Source) newServer(ln secured, c *committer) *server {
	return &server{
		protocol: s.protocol, limit: s.env.MaxRecordBytes, token: s.config.BearerTokenFile,
		commitWait: commitWait, stopWait: stopWait, bodyWait: bodyWait, answerWait: answerWait, freeBytes: freeBytes,
		failures: &s.failures, committer: c, listener: ln,
		conns: newConnections(),
		table: newTable(s.config.MaxConnections, ln.tls == nil, s.env.Log),
		small: make(places, maxSmall),
		large: make(places, maxLarge),
		gzips: sync.Pool{New: func() any { return new(gzip.Reader) }},
	}
}

// run serves clients until ctx is done, or nobody can be served any more, which is the
// error. It then stops in the order of the flow: nobody new, the requests under way are
// answered, what they brought is settled. cutOff ends hard, and with it all waiting.
func (s *server) run(ctx, hard context.Context, cutOff context.CancelCauseFunc) error {
	web := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: headerWait,
		IdleTimeout:       idleWait,
		MaxHeaderBytes:    headerBytes(s.token != ""),
		ErrorLog:          log.New(s.failures, "", 0),
		ConnState:         s.conns.changed,
		ConnContext:       fairconn.Context,
		BaseContext:       func(net.Listener) context.Context { return hard },
	}
	var served, committed error
	servedAll, committedAll, stop := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() { defer close(servedAll); served = web.Serve(s.accepting()) }()
	go func() { defer close(committedAll); committed = s.committer.run(hard, stop) }()
	select {
	case <-ctx.Done():
	case <-servedAll:
	case <-committedAll:
	}
	stopping := ctx.Err() != nil

	_ = s.listener.Close() // an accept that has failed may have closed it
	<-servedAll
	s.shutDown(web, cutOff)
	close(stop)
	settle := time.AfterFunc(settleWait, func() { cutOff(errStopping) })
	defer settle.Stop()
	<-committedAll
	s.left.Wait()
	switch {
	case stopping: // whoever was not answered keeps what he has
		return nil
	case committed != nil:
		return committed
	}
	return served
}

func headerBytes(withToken bool) int {
	if withToken {
		return maxTokenHeader
	}
	return maxHeader
}

// accepting is the listener as the HTTP server sees it.
func (s *server) accepting() net.Listener {
	l := s.table.Listen(s.listener.Listener)
	if s.listener.tls == nil {
		return l
	}
	return tls.NewListener(l, s.listener.tls)
}

// shutDown ends all connections, those with a request under way once it is answered.
func (s *server) shutDown(web *http.Server, cutOff context.CancelCauseFunc) {
	s.conns.closeNew()
	if !drained(web, s.stopWait) {
		cutOff(errStopping) // so they are answered that it was too late
		drained(web, settleWait)
	}
	_ = web.Close() // that connections are closed already is no news
	s.handlers.Wait()
	s.conns.wg.Wait()
}

// drained waits until all connections are idle and closed, and reports whether they are.
func drained(web *http.Server, within time.Duration) bool {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	return web.Shutdown(ctx) == nil
}
