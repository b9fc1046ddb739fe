// Package page serves the live view of a docket: one file of HTML for a browser, and the
// events that keep it up to date.
package page

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // for the page
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/docket-export/docket/internal/fairconn"
	"github.com/docket-export/docket/internal/ownhost"
)

//go:embed index.html
var document []byte

// maxListeners is enough for the people of an incident, and leaves three quarters of the
// places of an endpoint to kubelet, Prometheus and commands.
const maxListeners = 16

// interval is often enough for a view that moves. It keeps the connection alive, too.
const interval = time.Second

// Handle adds "GET /", the page, and "GET /events", the status as server-sent events. status
// returns what is shown, and is called for each listener each second.
func Handle(mux *http.ServeMux, status func() any) {
	policy := policyOf(document)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Content-Length", strconv.Itoa(len(document)))
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store") // a page of the version before would not fit the status
		_, _ = w.Write(document)           // the client has gone
	})
	e := &events{status: status, places: make(chan struct{}, maxListeners)}
	mux.Handle("GET /events", e)
}

// policyOf lets a browser run the style and the script of the page, and nothing that text
// in a status could bring in.
func policyOf(page []byte) string {
	return "default-src 'none'; connect-src 'self'; img-src data:" +
		"; script-src " + hashOf(page, "script") + "; style-src " + hashOf(page, "style") +
		"; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
}

// hashOf is how a policy names the one element of the page that has the tag.
func hashOf(page []byte, tag string) string {
	_, element, _ := bytes.Cut(page, []byte("<"+tag+">"))
	element, _, _ = bytes.Cut(element, []byte("</"+tag+">"))
	sum := sha256.Sum256(element)
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// events answers with an event a second until the listener goes or the endpoint stops.
type events struct {
	status func() any
	places chan struct{} // one is taken by each listener
}

func (e *events) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// A page of another origin could not read the events, but would take the places.
	if err := ownhost.CheckPage(r); err != nil {
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	select {
	case e.places <- struct{}{}:
		defer func() { <-e.places }()
	default:
		w.Header().Set("Retry-After", "10")
		http.Error(w, strconv.Itoa(maxListeners)+" pages are open already: close one, or use /status", http.StatusServiceUnavailable)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	// The endpoint's bound on reading a request would end the answer: the server reads on
	// meanwhile, to hear that the listener has gone.
	if err := http.NewResponseController(w).SetReadDeadline(time.Time{}); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		if err := e.send(w); err != nil {
			return // the listener has gone, or does not read
		}
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		case <-fairconn.Ending(r):
			return
		}
	}
}

// send writes one event. Its data is one line: JSON escapes line ends.
func (e *events) send(w http.ResponseWriter) error {
	text, err := json.Marshal(e.status())
	if err != nil {
		return err
	}
	answer := http.NewResponseController(w)
	if err := answer.SetWriteDeadline(time.Now().Add(fairconn.WriteTimeout)); err != nil {
		return err
	}
	for _, part := range [][]byte{[]byte("event: status\ndata: "), text, []byte("\n\n")} {
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	return answer.Flush()
}
