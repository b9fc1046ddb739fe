package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// docket is the built binary as a process.
type docket struct {
	*process
	dir, socket, admin string
	stored             int // records, of laps
}

const docketConfig = `apiVersion: docket.dev/v1alpha1
kind: Exporter
sources:
- {name: bench, unix: {path: %q, mode: "0600"}}
queue: {directory: %q, maxBytes: 16Gi}
sinks:
%s
admin: {address: %q}
shutdown: {drainTimeout: 1s}
`

// startDocket returns when docket is ready, with its queue below dir.
func startDocket(b *testing.B, dir string, sinks ...string) *docket {
	b.Helper()
	d := launchDocket(b, dir, sinks...)
	d.ready(5*time.Millisecond, func() bool {
		_, err := d.get("/readyz")
		return err == nil
	})
	return d
}

// launchDocket does not wait. Without sinks nothing can be delivered, so that the queue keeps everything.
func launchDocket(b *testing.B, dir string, sinks ...string) *docket {
	b.Helper()
	if _, err := exec.LookPath(*program); err != nil {
		b.Fatalf("%v: run make build first", err)
	}
	if len(sinks) == 0 {
		sinks = []string{httpSink("held", freeAddress(b))}
	}
	d := &docket{dir: dir, socket: newSocket(b), admin: freeAddress(b)}
	file := filepath.Join(dir, "docket.yaml")
	check(b, os.WriteFile(file, fmt.Appendf(nil, docketConfig, d.socket, d.queue(), strings.Join(sinks, "\n"), d.admin), 0o600))
	d.process = start(b, nil, *program, "run", "-f", file, "--log-format", "text")
	return d
}

func (d *docket) queue() string { return filepath.Join(d.dir, "queue") }

func fileSink(name, directory string) string {
	return fmt.Sprintf("- {name: %s, file: {directory: %q}}", name, directory)
}

// httpSink does not let the last batch of a lap, which is not full, wait for a second.
func httpSink(name, address string) string {
	return fmt.Sprintf("- {name: %s, batch: {maxWait: 5ms}, http: {url: %q}}", name, "http://"+address+"/")
}

func kafkaSink(name, broker string) string {
	return fmt.Sprintf("- {name: %s, batch: {maxWait: 5ms}, kafka: {brokers: [%q], topic: %s}}", name, broker, topic)
}

func (d *docket) get(path string) ([]byte, error) {
	resp, err := http.Get("http://" + d.admin + path)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", path, resp.Status)
	}
	return body, err
}

// delivered is what the ledger says of a sink.
func (d *docket) delivered(sink string) int {
	var status struct {
		Ledger struct {
			Sinks map[string]struct{ Delivered int }
		}
	}
	check(d.b, json.Unmarshal(must(d.get("/status"))(d.b), &status))
	return status.Ledger.Sinks[sink].Delivered
}

func (d *docket) awaitDelivered(sink string, records int) (delivered int) {
	d.b.Helper()
	until(d.b, "sink "+sink, 5*time.Millisecond, func() bool { delivered = d.delivered(sink); return delivered >= records })
	return delivered
}

// metric returns the value of a series of /metrics, named as it stands there.
func (d *docket) metric(series string) float64 {
	_, rest, _ := strings.Cut(string(must(d.get("/metrics"))(d.b)), "\n"+series+" ")
	value, _, _ := strings.Cut(rest, "\n")
	return must(strconv.ParseFloat(value, 64))(d.b)
}

// load has producers send, and returns what that has cost docket.
func (d *docket) load(records int) stint {
	d.b.Helper()
	const commits = "docket_commit_records_count"
	before := d.metric(commits)
	s := d.serve(fullLoad(d.socket, records))
	s.parts = d.metric(commits) - before
	d.stored += s.records
	return s
}

// backlog makes a queue below a new directory in which so many records wait, for any sink that is new to
// it. A batch that is not full waits until its first record is a second old.
func backlog(b *testing.B, records int) (dir string) {
	b.Helper()
	dir = scratch(b)
	d := startDocket(b, dir)
	d.load(records)
	d.stop()
	time.Sleep(1100 * time.Millisecond)
	rest(b, dir)
	return dir
}

// listen serves HTTP on loopback until the benchmark ends.
func listen(b *testing.B, address string, handler http.Handler) (at string) {
	b.Helper()
	l := must(net.Listen("tcp", address))(b)
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(l) }() // until it is closed
	b.Cleanup(func() { _ = server.Close() })
	return l.Addr().String()
}

// readRecords returns how many records a body has.
func readRecords(w http.ResponseWriter, r *http.Request) (records int, ok bool) {
	buf, size := make([]byte, 64<<10), 0
	for {
		n, err := r.Body.Read(buf)
		size += n
		if errors.Is(err, io.EOF) && size%recordBytes == 0 {
			return size / recordBytes, true
		}
		if err != nil {
			http.Error(w, fmt.Sprintf("%d bytes are no records: %v", size, err), http.StatusBadRequest)
			return 0, false
		}
	}
}

// gate is an HTTP receiver that takes everything, except while it is locked: then what comes waits, as at
// a destination that does not answer.
type gate struct {
	sync.RWMutex
	waiting atomic.Int32
	first   chan time.Time // holds when the first request had come in full
}

func newGate() *gate { return &gate{first: make(chan time.Time, 1)} }

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if _, ok := readRecords(w, r); !ok {
		return
	}
	select {
	case g.first <- time.Now():
	default: // it is not the first
	}
	g.waiting.Add(1)
	g.RLock()
	defer g.RUnlock()
	g.waiting.Add(-1)
}

// counter counts what a destination takes, so that docket and the plain program are measured by one clock:
// from the end of the first request to the end of the last.
type counter struct {
	done chan struct{} // closed when all records have come

	mu    sync.Mutex
	left  int
	began time.Time
	stint
}

func newCounter(records int) *counter { return &counter{left: records, done: make(chan struct{})} }

func (c *counter) add(records int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left <= 0 {
		return
	}
	c.left -= records
	if c.began.IsZero() {
		c.began = time.Now()
	} else {
		c.parts++
		c.records += records
	}
	if c.left <= 0 {
		c.took = time.Since(c.began)
		close(c.done)
	}
}

func (c *counter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if records, ok := readRecords(w, r); ok {
		c.add(records)
	}
}

// wait returns what has come behind the first request.
func (c *counter) wait(b *testing.B) stint {
	b.Helper()
	select {
	case <-c.done:
	case <-time.After(patience):
		b.Fatal("no time is left to wait for the records to arrive")
	}
	return c.stint
}
