package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/docket-export/docket/bench/load"
	"github.com/docket-export/docket/bench/process"
	"github.com/docket-export/docket/bench/record"
	"github.com/docket-export/docket/bench/site"
	"github.com/docket-export/docket/bench/trial"
)

// count is what has arrived at a destination.
type count struct {
	Records int // each counted once
	Again   int // how many came once more
	Broken  int // lines that are not, byte for byte, what a producer has sent
}

// check ends the measurement where bytes were not kept: the program was not told to do
// what it is measured for.
func (c count) check() {
	if c.Broken > 0 {
		trial.Check(fmt.Errorf("%d lines arrived that nobody has sent so", c.Broken))
	}
}

// arrivals say when there were how many records, in order.
type arrivals []arrival

type arrival struct {
	Records int
	At      time.Time
}

// at is when there were n records.
func (a arrivals) at(n int) time.Time {
	i := slices.IndexFunc(a, func(m arrival) bool { return m.Records >= n })
	if i < 0 {
		trial.Check(fmt.Errorf("fewer than %d records have arrived", n))
	}
	return a[i].At
}

// census knows which records have arrived. Its methods may be called at once.
type census struct {
	blocks []*record.Block // by producer; not changed

	mu       sync.Mutex
	seen     [load.Producers][]bool // by number; guarded by mu
	count    count                  // guarded by mu
	arrivals arrivals               // guarded by mu
}

func newCensus() *census {
	c := &census{}
	for i := range load.Producers {
		c.blocks = append(c.blocks, record.NewBlock(i))
	}
	return c
}

// take counts the lines of text, whose last may lack its newline. skip says which
// lines are no records; nil: none.
func (c *census) take(text []byte, skip func(line []byte) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.count.Records
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSuffix(line, []byte("\n")); skip == nil || !skip(line) {
			c.takeLine(line)
		}
	}
	if c.count.Records > before {
		c.arrivals = append(c.arrivals, arrival{c.count.Records, time.Now()})
	}
}

// takeLine counts one line; mu is held.
func (c *census) takeLine(line []byte) {
	producer, number, ok := record.ID(line)
	if !ok || producer >= load.Producers || !c.blocks[producer].Has(line, number) {
		c.count.Broken++
		return
	}
	seen := &c.seen[producer]
	if number >= len(*seen) {
		*seen = append(*seen, make([]bool, number+1-len(*seen))...)
	}
	if (*seen)[number] {
		c.count.Again++
		return
	}
	(*seen)[number] = true
	c.count.Records++
}

// read returns what has arrived, and when.
func (c *census) read() (count, arrivals) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count, slices.Clone(c.arrivals)
}

// countFiles returns what is in the exported files in dir, which nobody writes any more.
func countFiles(dir string) count {
	c := newCensus()
	for _, name := range trial.Must(site.Exported(dir)) {
		f := trial.Must(os.Open(name))
		defer f.Close()
		piece := make([]byte, 1024*record.Bytes) // ends where a record does
		for {
			n, err := io.ReadFull(f, piece)
			c.take(piece[:n], nil)
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				break
			}
			trial.Check(err)
		}
	}
	n, _ := c.read()
	return n
}

// bulkPath is where Elasticsearch takes bulk requests.
const bulkPath = "/_bulk"

// receive has an HTTP server at the address count what is posted to it until the
// measurement ends, as lines of records or as a bulk request of Elasticsearch, which is
// how rsyslog as Debian has it speaks HTTP.
func receive(t *trial.T, address string) *census {
	c, mux := newCensus(), http.NewServeMux()
	take := func(w http.ResponseWriter, req *http.Request, skip func([]byte) bool) bool {
		var body bytes.Buffer
		body.Grow(int(max(req.ContentLength, 0)) + bytes.MinRead)
		if _, err := body.ReadFrom(req.Body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return false
		}
		c.take(body.Bytes(), skip) // once the request is here as a whole
		return true
	}
	mux.HandleFunc("POST /{$}", func(w http.ResponseWriter, req *http.Request) { take(w, req, nil) })
	mux.HandleFunc("POST "+bulkPath, func(w http.ResponseWriter, req *http.Request) {
		if take(w, req, isAction) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"took":0,"errors":false,"items":[]}`) // an error is the client's to notice
		}
	})
	mux.HandleFunc("/_cat/health", func(http.ResponseWriter, *http.Request) {}) // which a client asks before it sends
	process.Serve(t, process.Listen(address), mux)
	return c
}

// isAction says whether a line of a bulk request says what to do with the next.
func isAction(line []byte) bool {
	return bytes.HasPrefix(line, []byte(`{"index":`)) || bytes.HasPrefix(line, []byte(`{"create":`))
}
