package exporter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/docket-export/docket/internal/fairconn"
	"github.com/docket-export/docket/internal/ownhost"
)

// maxAdminConnections bounds those to each admin listener: kubelet, Prometheus and a few
// people. An idle one costs some 13 KB.
const maxAdminConnections = 64

func newAdminServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           fairconn.Handler(h),
		ConnContext:       fairconn.Context,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      adminWriteTimeout,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    8 << 10,
	}
}

// serve has h answer on l until the returned function is called.
func (e *Exporter) serve(l net.Listener, h http.Handler) (stop func()) {
	server := newAdminServer(h)
	l = fairconn.New(maxAdminConnections, peerHost, func(nc net.Conn) { nc.Close() }).Listen(l)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			e.log.Error("admin endpoint ended", "error", err)
		}
	}()
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			_ = server.Close() // a client that is still reading must not hold up the end
		}
		<-ended
	}
}

// peerHost is the address of a peer without its port, which is another for each
// connection; empty on a Unix socket.
func peerHost(nc net.Conn) string {
	host, _, _ := net.SplitHostPort(nc.RemoteAddr().String())
	return host
}

// ownHost answers requests that are meant for a loopback address. A page in a browser
// on this machine can have its own name lead here, and would be let in otherwise.
func ownHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := ownhost.Check(r); err != nil {
			http.Error(w, err.Error(), http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// adminWriteTimeout bounds an answer, or one part of a long one.
const adminWriteTimeout = 30 * time.Second

// adminHandler answers what the endpoint has. may says who is let at the dead letters.
func (e *Exporter) adminHandler(may permission) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", e.livez)
	mux.HandleFunc("GET /readyz", e.readyz)
	mux.HandleFunc("GET /status", e.status)
	mux.Handle("GET /metrics", promhttp.HandlerFor(e.metrics.registry, promhttp.HandlerOpts{}))
	e.handleLetters(mux, may)
	paths := "/status /metrics /livez /readyz /deadletters"
	if e.cfg.Admin.Pprof {
		handleProfiles(mux)
		paths += " " + profilePath
	}
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "docket: "+paths)
	})
	return mux
}

// livez says whether the process is of use. A disk that takes no writes does not
// make it useless: it recovers by itself, and a restart would not help.
func (e *Exporter) livez(w http.ResponseWriter, _ *http.Request) {
	fmt.Fprintln(w, "ok")
}

// readyz says whether producers can be served: every listener bound and the queue
// writable. Never the sinks: an outage of Kafka must not take the webhook beside us out
// of service. Nor a source that reads files, which may have nothing to read before the
// webhook is in service. What is wrong with either is in /status.
func (e *Exporter) readyz(w http.ResponseWriter, _ *http.Request) {
	if reasons := e.notReady(); len(reasons) > 0 {
		http.Error(w, strings.Join(reasons, "\n"), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

func (e *Exporter) notReady() (reasons []string) {
	select {
	case <-e.stopping:
		reasons = append(reasons, "stopping")
	default:
	}
	if err := e.queue.Stats().Err; err != nil {
		reasons = append(reasons, "queue: "+diskReason(err, e.cfg.Queue.Directory))
	}
	for _, s := range e.sources {
		if reason := s.unbound(); reason != "" {
			reasons = append(reasons, "source "+s.name+": "+reason)
		}
	}
	return reasons
}

func (e *Exporter) status(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	if err := enc.Encode(e.Status()); err != nil {
		e.log.Debug("status not written", "error", err) // the client has gone
	}
}
