package destinations

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// receiver is a server in the test. It takes every request that it gets whole, and
// can be told to answer one of them badly.
type receiver struct {
	*httptest.Server
	t      *testing.T
	decode func(body []byte) ([]arrival, error)
	mu     sync.Mutex
	got    []arrival  // guarded by mu
	bad    *badAnswer // guarded by mu; nil: every request is answered 200
}

// badAnswer waits for a request that it is to answer.
type badAnswer struct {
	answer http.HandlerFunc
	struck chan struct{} // closed when it has been called
}

func newReceiver(t *testing.T, decode func(body []byte) ([]arrival, error)) *receiver {
	r := &receiver{t: t, decode: decode}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

// answerOnce has the next request that is taken answered by answer. The channel is
// closed when that has happened.
func (r *receiver) answerOnce(answer http.HandlerFunc) <-chan struct{} {
	bad := &badAnswer{answer: answer, struck: make(chan struct{})}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bad = bad
	return bad.struck
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
	bad := r.bad
	r.bad = nil
	r.mu.Unlock()
	if bad != nil {
		bad.answer(w, req)
		close(bad.struck)
	}
}

// arrivals returns what was taken, in this order.
func (r *receiver) arrivals() []arrival {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got)
}

// decodeStamped takes lines apart that docket has stamped.
func decodeStamped(body []byte) ([]arrival, error) {
	const stamp = `,"_docket":`
	var got []arrival
	for line := range bytes.Lines(body) {
		line, whole := strings.CutSuffix(string(line), "}\n")
		at := strings.LastIndex(line, stamp)
		if !whole || at < 0 {
			return nil, fmt.Errorf("not a line with a stamp: %.300q", line)
		}
		var s struct{ ID string }
		if err := json.Unmarshal([]byte(line[at+len(stamp):]), &s); err != nil {
			return nil, err
		}
		got = append(got, arrival{id: s.ID, record: line[:at] + "}"})
	}
	return got, nil
}
