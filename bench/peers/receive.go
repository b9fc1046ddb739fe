package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
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
	Records int    // each counted once
	Again   int    // how many came once more
	Broken  int    // lines that are not, byte for byte, what a producer has sent
	Example string // one of them
}

// check ends the measurement where bytes were not kept: the program was not told to do
// what it is measured for.
func (c count) check() {
	if c.Broken > 0 {
		trial.Check(fmt.Errorf("%d lines arrived that nobody has sent so, such as %.400s", c.Broken, c.Example))
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

// take counts records, each without a newline.
func (c *census) take(records [][]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.count.Records
	for _, r := range records {
		c.takeLine(r)
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
		c.count.Example = string(line)
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

// missing returns how many of the first so many records of each producer have not
// arrived.
func (c *census) missing(each []int) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for producer, sent := range each {
		seen := c.seen[producer]
		for number := range sent {
			if number >= len(seen) || !seen[number] {
				n++
			}
		}
	}
	return n
}

// read returns what has arrived, and when.
func (c *census) read() (count, arrivals) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count, slices.Clone(c.arrivals)
}

// countFiles returns what is in the exported files in dir, which nobody writes any more. It
// skips docket's own records there.
func countFiles(dir string) count {
	c := newCensus()
	for _, name := range trial.Must(site.Exported(dir)) {
		all := trial.Must(lines(trial.Must(os.ReadFile(name))))
		c.take(slices.DeleteFunc(all, func(line []byte) bool { return bytes.HasPrefix(line, []byte(`{"eventType":"docket.`)) }))
	}
	n, _ := c.read()
	return n
}

// bulkPath is where Elasticsearch takes bulk requests.
const bulkPath = "/_bulk"

// receive has an HTTP server at the address count what is posted to it until the
// measurement ends: lines, bulk requests of Elasticsearch, which is how rsyslog as Debian
// has it and Filebeat speak HTTP, and requests of OTLP.
func receive(t *trial.T, address string) *census {
	c, mux := newCensus(), http.NewServeMux()
	// take answers a request once it is here as a whole.
	take := func(records func(body []byte) ([][]byte, error), answer func(w http.ResponseWriter, n int)) http.HandlerFunc {
		return func(w http.ResponseWriter, req *http.Request) {
			var body bytes.Buffer
			body.Grow(int(max(req.ContentLength, 0)) + bytes.MinRead)
			_, err := body.ReadFrom(req.Body)
			var all [][]byte
			if err == nil {
				all, err = records(body.Bytes())
			}
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			c.take(all)
			answer(w, len(all))
		}
	}
	mux.HandleFunc("POST /{$}", take(lines, func(http.ResponseWriter, int) {}))
	mux.HandleFunc("POST "+load.OTLPPath, take(logRecords, func(w http.ResponseWriter, _ int) {
		w.Header().Set("Content-Type", "application/x-protobuf") // of an empty message: all was taken
	}))
	mux.HandleFunc("POST "+bulkPath, take(bulk, func(w http.ResponseWriter, n int) {
		w.Header().Set("Content-Type", "application/json")
		items := strings.TrimSuffix(strings.Repeat(`{"create":{"status":201}},`, n), ",")
		_, _ = io.WriteString(w, `{"took":0,"errors":false,"items":[`+items+`]}`) // an error is the client's to notice
	}))
	for path, answer := range map[string]string{ // what clients of Elasticsearch ask before they send
		"GET /{$}":     `{"version":{"number":"7.17.0","build_flavor":"default"},"tagline":"You Know, for Search"}`,
		"/_license":    `{"license":{"uid":"bench","type":"basic","status":"active"}}`,
		"/_cat/health": "",
	} {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Elastic-Product", "Elasticsearch")
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, answer) // as above
		})
	}
	process.Serve(t, process.Listen(address), mux)
	return c
}

// lines are the records of a text, whose last may lack its newline.
func lines(text []byte) (records [][]byte, _ error) {
	for line := range bytes.Lines(text) {
		records = append(records, bytes.TrimSuffix(line, []byte("\n")))
	}
	return records, nil
}

// logRecords are the records of a request of OTLP.
func logRecords(request []byte) (records [][]byte, err error) {
	err = load.OTLPTexts(request, func(text []byte) { records = append(records, text) })
	return records, err
}

// bulk returns the records of a bulk request: each is a document, or the message of one.
func bulk(request []byte) (records [][]byte, err error) {
	all, err := lines(request)
	for _, line := range all {
		if bytes.HasPrefix(line, []byte(`{"index":`)) || bytes.HasPrefix(line, []byte(`{"create":`)) {
			continue // it says what to do with the next
		}
		if _, _, ok := record.ID(line); !ok {
			line = message(line)
		}
		records = append(records, line)
	}
	return records, err
}

// message is the message of a document; of one without, the document. Only that string
// is decoded: the receiver shares the processors with what is measured.
func message(document []byte) []byte {
	const key = `"message":`
	at := bytes.Index(document, []byte(key))
	if at < 0 {
		return document
	}
	var text string
	if json.NewDecoder(bytes.NewReader(document[at+len(key):])).Decode(&text) != nil {
		return document
	}
	return []byte(text)
}
