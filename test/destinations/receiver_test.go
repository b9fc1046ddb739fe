package destinations

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
)

// receiver is a server in the test. It takes every request that it gets whole.
type receiver struct {
	*httptest.Server
	t      *testing.T
	decode func(body []byte) ([]arrival, error)
	mu     sync.Mutex
	got    []arrival // guarded by mu
}

func newReceiver(t *testing.T, decode func(body []byte) ([]arrival, error)) *receiver {
	r := &receiver{t: t, decode: decode}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return // cut: nobody waits for an answer
	}
	got, err := r.decode(body)
	if err != nil {
		r.t.Errorf("the receiver cannot read a request: %v in %.300s", err, body)
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	r.mu.Lock()
	r.got = append(r.got, got...)
	r.mu.Unlock()
}

// arrivals returns what was taken, in this order.
func (r *receiver) arrivals() []arrival {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got)
}
