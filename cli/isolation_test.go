package cli

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/internal/testcli"
)

// TestSinksAreIsolated is promise 5: a sink that swallows what it gets, one that
// refuses connections, one that is slow and one that rejects some records keep
// nothing from the others or from readiness; and each catches up completely once its
// destination is mended.
func TestSinksAreIsolated(t *testing.T) {
	t.Parallel()
	const total = 2000
	dir := t.TempDir()
	admin, err := testcli.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	refusing, err := testcli.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	hole, slow, picky := newReceiver(t), newReceiver(t), newReceiver(t)
	hole.set(func() { hole.swallows = true })
	mended := make(chan struct{})
	slow.set(func() { slow.mended = mended })
	picky.set(func() { picky.poison = []byte(`"n":777,`) })
	writeFile(t, filepath.Join(dir, "docket.yaml"), strings.NewReplacer("ADMIN", admin, "DIR", dir,
		"HOLE", hole.server.URL, "SLOW", slow.server.URL, "PICKY", picky.server.URL, "REFUSING", refusing).Replace(`apiVersion: docket.dev/v1alpha1
kind: Exporter
sources:
- name: engine
  unix: {path: DIR/docket.sock}
queue: {directory: DIR/queue}
sinks:
- {name: hole, retry: {initialBackoff: 50ms, maxBackoff: 200ms}, http: {url: "HOLE/", timeout: 500ms}}
- {name: refusing, retry: {initialBackoff: 50ms, maxBackoff: 200ms}, http: {url: "http://REFUSING/"}}
- {name: slow, http: {url: "SLOW/"}}
- {name: picky, http: {url: "PICKY/"}}
- {name: export, file: {directory: DIR/export}}
admin: {address: "ADMIN"}
`))
	startDocket(t, dir)
	if err := waitReady(t, admin); err != nil {
		t.Fatal(err)
	}
	var lines bytes.Buffer
	for n := range total {
		fmt.Fprintf(&lines, "{\"n\":%d,\"pad\":%q}\n", n, strings.Repeat("x", 900))
	}
	sendAll(t, filepath.Join(dir, "docket.sock"), &lines)

	delivered := func(name string, n uint64) func(exporter.Status) bool {
		return func(s exporter.Status) bool { return s.Ledger.Sinks[name].Delivered >= n }
	}
	waitStatus(t, admin, delivered("export", total))
	s := waitStatus(t, admin, delivered("picky", total-1))
	if got := s.Ledger.Sinks; got["hole"].Delivered > 0 || got["refusing"].Delivered > 0 || got["slow"].Pending == 0 {
		t.Errorf("the test tests little: %+v", got)
	}
	if got := s.Ledger.Sinks["picky"]; got.DeadLettered != 1 || got.Pending != 0 {
		t.Errorf("the sink that rejects one record: %+v, want 1 dead letter and nothing pending", got)
	}
	if !isReady(t, admin) {
		t.Error("an outage of sinks has made the pod unready")
	}
	hole.set(func() { hole.swallows = false })
	close(mended)
	back := newReceiver(t)
	listenAt(t, refusing, back)
	for name, r := range map[string]*receiver{"hole": hole, "refusing": back, "slow": slow} {
		waitStatus(t, admin, delivered(name, total))
		if got := r.count(); uint64(got) < total {
			t.Errorf("sink %s: the receiver has %d of %d records", name, got, total)
		}
	}
	waitStatus(t, admin, func(s exporter.Status) bool {
		for _, l := range s.Ledger.Sinks {
			if l.Pending > 0 {
				return false
			}
		}
		return true
	})
}

// sendAll streams lines in plain mode.
func sendAll(t *testing.T, socket string, lines io.Reader) {
	t.Helper()
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.Copy(conn, lines); err != nil {
		t.Fatal(err)
	}
}

// receiver takes NDJSON and counts different records.
type receiver struct {
	server *httptest.Server

	mu       sync.Mutex
	swallows bool          // it answers nothing
	mended   chan struct{} // each answer waits until it is closed, unless it is nil
	poison   []byte        // a batch with this in it gets a 400
	seen     map[string]bool
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{seen: map[string]bool{}}
	r.server = httptest.NewServer(r)
	t.Cleanup(func() {
		r.server.CloseClientConnections()
		r.server.Close()
	})
	return r
}

func (r *receiver) set(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
}

func (r *receiver) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.seen)
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	r.mu.Lock()
	swallows, mended, poison := r.swallows, r.mended, r.poison
	r.mu.Unlock()
	switch {
	case err != nil:
		return
	case swallows:
		<-req.Context().Done()
		return
	case poison != nil && bytes.Contains(body, poison):
		http.Error(w, "field n must not have this value", http.StatusBadRequest)
		return
	}
	if mended != nil {
		select {
		case <-mended:
		case <-req.Context().Done():
			return
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for line := range strings.Lines(string(body)) {
		r.seen[line] = true
	}
}

// listenAt has r answer at an address as well.
func listenAt(t *testing.T, address string, r *receiver) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: r}
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
}
