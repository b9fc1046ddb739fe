package nodetest

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/docket-export/docket/decision"
)

// Receiver is a destination of the http sink, in the test program and the node's network.
type Receiver struct {
	URL string // that pods reach

	mu     sync.Mutex
	lines  []string          // guarded by mu
	once   []string          // lines without copies; guarded by mu
	taken  map[recordID]bool // guarded by mu
	status int               // guarded by mu; 0: lines are taken
}

// recordID names a record among those of all queues.
type recordID struct {
	queue string
	seq   uint64
}

// Receiver starts a receiver, which ends with the test.
func (n *Node) Receiver(t testing.TB) *Receiver {
	t.Helper()
	l, err := n.Listen(n.Address + ":0")
	if err != nil {
		t.Fatal(err)
	}
	r := &Receiver{taken: make(map[recordID]bool)}
	s := httptest.NewUnstartedServer(r)
	_ = s.Listener.Close()
	s.Listener = l
	s.Start()
	t.Cleanup(s.Close)
	r.URL = s.URL
	return r
}

func (r *Receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return // cut: nobody waits for an answer
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	isTenth := req.Header.Get("Docket-Records") == "1" && strings.HasSuffix(req.Header.Get("Docket-First-Seq"), "0")
	if r.status != 0 && !(r.status == http.StatusUnprocessableEntity && isTenth) {
		w.WriteHeader(r.status)
		return
	}
	id, ok := firstOf(req.Header)
	for line := range strings.Lines(string(body)) {
		line = strings.TrimSuffix(line, "\n")
		r.lines = append(r.lines, line)
		if !ok || !r.taken[id] {
			r.once = append(r.once, line)
		}
		if ok {
			r.taken[id] = true
			id.seq++
		}
	}
}

// firstOf names the first record of a request. It returns false where the numbers of the others are not known,
// because the sink has left some out, or where an operator has asked for records once more.
func firstOf(h http.Header) (id recordID, ok bool) {
	first, err1 := strconv.ParseUint(h.Get("Docket-First-Seq"), 10, 64)
	last, err2 := strconv.ParseUint(h.Get("Docket-Last-Seq"), 10, 64)
	records, err3 := strconv.ParseUint(h.Get("Docket-Records"), 10, 64)
	ok = errors.Join(err1, err2, err3) == nil && last-first+1 == records && h.Get("Docket-Late") == ""
	return recordID{h.Get("Docket-Queue"), first}, ok
}

// Answer makes the receiver answer with status from now on, and take nothing; with 0 it takes
// lines again. With 422 it takes each tenth record, if it comes alone: a refusal counts only where others are accepted.
func (r *Receiver) Answer(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = status
}

// Lines returns what it has taken, in order.
func (r *Receiver) Lines() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.lines)
}

// LinesOnce is Lines with each record once, by the headers of the sink: a docket that was killed delivers
// some again.
func (r *Receiver) LinesOnce() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.once)
}

// RequestUIDs returns how often it has taken each.
func (r *Receiver) RequestUIDs() map[string]int {
	uids := make(map[string]int)
	for _, line := range r.Lines() {
		var record decision.Record
		if json.Unmarshal([]byte(line), &record) == nil && record.RequestUID != "" {
			uids[record.RequestUID]++
		}
	}
	return uids
}

// Missing returns those of the requestUIDs that it has not taken.
func (r *Receiver) Missing(uids []string) (missing []string) {
	taken := r.RequestUIDs()
	for _, uid := range uids {
		if taken[uid] == 0 {
			missing = append(missing, uid)
		}
	}
	return missing
}

var ackedLine = regexp.MustCompile(`(?m)^acked (\S+)$`)

// Acked returns the requestUIDs that a log of the program engine names: docket has promised
// these.
func Acked(log string) (uids []string) {
	for _, m := range ackedLine.FindAllStringSubmatch(log, -1) {
		uids = append(uids, m[1])
	}
	return uids
}
