package main

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/docket-export/docket/bench/trial"
)

const (
	// requestWait bounds one request, however busy the machine is.
	requestWait = 10 * time.Second
	// bulkPath is where Elasticsearch takes bulk requests.
	bulkPath = "/_bulk"
)

// receive has an HTTP server at the address count what is posted to it until the
// measurement ends, as lines of records or as a bulk request of Elasticsearch, which is
// how rsyslog as Debian has it speaks HTTP.
func receive(t *trial.T, address string) *census {
	l := trial.Must(net.Listen("tcp", address))
	r := &receiver{census: newCensus()}
	server := &http.Server{ReadHeaderTimeout: requestWait, Handler: r.handler()}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) }) // until it is closed
	t.Cleanup(func() error {
		_ = server.Close()
		serving.Wait()
		return nil
	})
	return r.census
}

type receiver struct {
	census  *census
	buffers sync.Pool // of *bytes.Buffer
}

func (r *receiver) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /{$}", func(w http.ResponseWriter, req *http.Request) { r.take(w, req, nil) })
	mux.HandleFunc("POST "+bulkPath, func(w http.ResponseWriter, req *http.Request) {
		if r.take(w, req, isAction) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"took":0,"errors":false,"items":[]}`) // an error is the client's to notice
		}
	})
	mux.HandleFunc("/_cat/health", func(http.ResponseWriter, *http.Request) {}) // which a client asks before it sends
	return mux
}

// isAction says whether a line of a bulk request says what to do with the next.
func isAction(line []byte) bool {
	return bytes.HasPrefix(line, []byte(`{"index":`)) || bytes.HasPrefix(line, []byte(`{"create":`))
}

// take counts the lines of a request once it is here as a whole. Where it is not,
// that is answered, and take returns false.
func (r *receiver) take(w http.ResponseWriter, req *http.Request, skip func([]byte) bool) bool {
	body, ok := r.buffers.Get().(*bytes.Buffer)
	if !ok {
		body = &bytes.Buffer{}
	}
	defer r.buffers.Put(body)
	body.Reset()
	if _, err := body.ReadFrom(req.Body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return false
	}
	r.census.take(body.Bytes(), skip)
	return true
}
