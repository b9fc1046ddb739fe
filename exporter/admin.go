package exporter

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/docket-export/docket/exporter/page"
	"github.com/docket-export/docket/internal/fairconn"
	"github.com/docket-export/docket/internal/ownhost"
)

// serve has h answer on l until the returned function is called.
func (e *Exporter) serve(l net.Listener, h http.Handler) (stop func()) {
	return fairconn.Serve(l, nil, h, func(err error) { e.log.Error("admin endpoint ended", "error", err) })
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

// adminHandler answers what the endpoint has. Only where it is private does it show records
// or change something.
func (e *Exporter) adminHandler(private bool) http.Handler {
	mux := http.NewServeMux()
	e.handleProbes(mux)
	mux.HandleFunc("GET /status", e.status)
	e.handleLetters(mux, private)
	e.handleQueue(mux, private)
	e.handleSinks(mux, private)
	if e.config().Admin.Pprof {
		handleProfiles(mux)
	}
	page.Handle(mux, func() any { return e.Status() })
	return mux
}

// maxScrapes is how many scrapes an endpoint answers at a time: each holds the lock of the queue
// for a moment. One who does not read its answer is cut off by the write timeout.
const maxScrapes = 8

// handleProbes adds what kubelet and Prometheus ask for.
func (e *Exporter) handleProbes(mux *http.ServeMux) {
	mux.HandleFunc("GET /livez", e.livez)
	mux.HandleFunc("GET /readyz", e.readyz)
	mux.Handle("GET /metrics", promhttp.HandlerFor(e.metrics.registry, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes}))
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
//
// With ?exclude=queue it says whether docket has started: a disk that takes no writes then
// counts for nothing.
func (e *Exporter) readyz(w http.ResponseWriter, r *http.Request) {
	if reasons := e.notReady(r.URL.Query().Get("exclude") == "queue"); len(reasons) > 0 {
		http.Error(w, strings.Join(reasons, "\n"), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

func (e *Exporter) notReady(withoutQueue bool) (reasons []string) {
	select {
	case <-e.stopping:
		reasons = append(reasons, "stopping")
	default:
	}
	if err := e.queue.Stats().Err; err != nil && !withoutQueue {
		reasons = append(reasons, "queue: "+diskReason(err, e.config().Queue.Directory))
	}
	for _, s := range e.parts().sources {
		if reason := s.unbound(); reason != "" {
			reasons = append(reasons, "source "+s.cfg.Name+": "+reason)
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
