package fairconn

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/docket-export/docket/internal/descriptors"
)

// WriteTimeout bounds an answer of an endpoint, or one part of a long one.
const WriteTimeout = 30 * time.Second

// NewEndpoint returns a server for kubelet, Prometheus and a few people. Its listener must
// be one of a Table.
func NewEndpoint(h http.Handler) *http.Server {
	ending := make(chan struct{})
	s := &http.Server{
		Handler: Handler(h),
		BaseContext: func(net.Listener) context.Context {
			return context.WithValue(context.Background(), endingKey{}, ending)
		},
		ConnContext:       Context,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      WriteTimeout,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    8 << 10,
	}
	s.RegisterOnShutdown(sync.OnceFunc(func() { close(ending) }))
	return s
}

type endingKey struct{}

// Ending returns a channel that is closed when the endpoint that serves r begins to stop.
// Answers without an end must end then.
func Ending(r *http.Request) <-chan struct{} {
	ending, _ := r.Context().Value(endingKey{}).(chan struct{})
	return ending
}

// Serve serves h on l as an endpoint until stop is called: over TLS unless secure is nil. If
// serving ends earlier, Serve calls failed with the reason.
func Serve(l net.Listener, secure *tls.Config, h http.Handler, failed func(error)) (stop func()) {
	endpoint := NewEndpoint(h)
	l = New(descriptors.EndpointConnections(descriptors.Limit()), peerHost, func(nc net.Conn) { nc.Close() }).Listen(l)
	if secure != nil {
		l = tls.NewListener(l, secure)
		endpoint.ErrorLog = log.New(withoutHandshakes{os.Stderr}, "", 0)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := endpoint.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			failed(err)
		}
	}()
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if endpoint.Shutdown(ctx) != nil {
			_ = endpoint.Close() // a client that is still reading must not hold up the end
		}
		<-ended
	}
}

// withoutHandshakes drops the lines of net/http on handshakes that failed: each peer on
// the network could fill the log with them.
type withoutHandshakes struct{ io.Writer }

func (w withoutHandshakes) Write(line []byte) (int, error) {
	if bytes.HasPrefix(line, []byte("http: TLS handshake error")) {
		return len(line), nil
	}
	return w.Writer.Write(line)
}

// peerHost is the address of a peer without its port, which is another for each
// connection; empty on a Unix socket.
func peerHost(nc net.Conn) string {
	host, _, _ := net.SplitHostPort(nc.RemoteAddr().String())
	return host
}
