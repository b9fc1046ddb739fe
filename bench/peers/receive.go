package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/docket-export/docket/bench/process"
	"github.com/docket-export/docket/bench/trial"
)

const (
	// requestWait bounds one request, however busy the machine is.
	requestWait = 10 * time.Second
	// What the destination is asked.
	countPath = "/count"
	timesPath = "/times"
	// bulkPath is where Elasticsearch takes bulk requests.
	bulkPath = "/_bulk"
)

// receiveMain is the process of the HTTP destination. It counts what is posted to
// it, as lines of records or as a bulk request of Elasticsearch, which is how
// rsyslog as Debian has it speaks HTTP. It ends with in: when the program that started
// it ends, however that happens, nothing is left behind.
func receiveMain(args []string, in io.Reader, out io.Writer) error {
	if len(args) != 1 {
		return fmt.Errorf("%s takes an address", receiveCommand)
	}
	l, err := net.Listen("tcp", args[0])
	if err != nil {
		return err
	}
	server := &http.Server{ReadHeaderTimeout: requestWait, Handler: (&receiver{census: newCensus()}).handler()}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) }) // until it is closed
	if _, err = fmt.Fprintln(out, l.Addr()); err == nil {
		_, err = io.Copy(io.Discard, in)
	}
	_ = server.Close()
	serving.Wait()
	return err
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
	mux.HandleFunc("GET "+countPath, func(w http.ResponseWriter, _ *http.Request) {
		n, _ := r.census.read()
		_ = json.NewEncoder(w).Encode(n) // as above
	})
	mux.HandleFunc("GET "+timesPath, func(w http.ResponseWriter, _ *http.Request) {
		_, times := r.census.read()
		_ = json.NewEncoder(w).Encode(times) // as above
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

// ask asks a running receiver and reads its answer into v.
func ask(t *trial.T, receiver *process.Server, path string, v any) {
	req := trial.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+receiver.Address+path, nil))
	resp, err := http.DefaultClient.Do(req)
	trial.Check(err)
	defer resp.Body.Close()
	trial.Check(json.NewDecoder(resp.Body).Decode(v))
}
