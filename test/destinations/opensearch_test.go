package destinations

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/docket-export/docket/test/dockettest"
	"github.com/docket-export/docket/test/internal/proxy"
)

// TestOpenSearch is about what the bulk API promises: a redelivery leaves no second
// document, and what is refused is known record by record.
func TestOpenSearch(t *testing.T) {
	s := startOpenSearch(t)
	t.Run("docket killed", func(t *testing.T) { openSearchDocketKilled(t, s) })
	t.Run("mapping conflict", func(t *testing.T) { openSearchMapping(t, s) })
	t.Run("write block", func(t *testing.T) { openSearchBlocked(t, s) })
}

// bulk is the section http of a sink that writes into an index.
func bulk(address, index string) string {
	return fmt.Sprintf(`
url: http://%s/_bulk
compression: gzip
encoding: elasticsearchBulk
elasticsearchBulk: {index: %q}
`, address, index)
}

// openSearchDocketKilled kills docket three times, each time when OpenSearch has
// taken a batch and docket does not know it. The batch comes again, and there is
// one document for each record.
func openSearchDocketKilled(t *testing.T, s *openSearch) {
	const index, kills = "killed", 3
	s.createIndex(t, index, "")
	network := proxy.New(t, s.address)
	d := dockettest.New(t)
	configuration := config(d, bulk(network.Address(), index))
	d.Start(configuration)
	l := startLoad(t, d)
	for range kills {
		awaitMore(d)
		proxy.Await(t, network.Strike(proxy.HoldAnswer))
		d.Kill()
		d.Start(configuration)
	}
	acknowledged := l.stop(t)
	status := d.Await("everything to be delivered", deliverTimeout, delivered(len(acknowledged)))
	d.Stop()

	if n := check(t, status.Queue.ID, acknowledged, s.readAll(t, index)); n > 0 {
		t.Errorf("%d documents are there twice", n)
	}
	conflicts := s.conflicts(t, index)
	t.Logf("docket was killed %d times, and offered %d records again that were there", kills, conflicts)
	if conflicts < kills {
		t.Errorf("%d records were offered again, want some after each of %d kills", conflicts, kills)
	}
}

// openSearchMapping sends one record in 500 that does not fit the mapping. It is set
// aside alone, in OpenSearch's words, and redriven when the mapping takes it.
func openSearchMapping(t *testing.T, s *openSearch) {
	const (
		index = "mapped"
		n     = 500
		wrong = 250 // its number
	)
	s.createIndex(t, index, `"number":{"type":"long"}`)
	d := dockettest.New(t)
	d.Start(config(d, bulk(s.address, index)))
	lines := readLines(t).first(n)
	lines[wrong-1] = `{"number":"two hundred and fifty"}`
	d.Send(text(lines))
	status := d.Await("one record to be set aside", deliverTimeout, asideOf(n, 1))
	before := s.readAll(t, index)
	if len(before) != n-1 {
		t.Errorf("%d documents are there before the redrive, want %d", len(before), n-1)
	}

	id := fmt.Sprintf("%s-%d", status.Queue.ID, wrong)
	letters := readLetters(t, d)
	if len(letters) != 1 {
		t.Fatalf("%d records are set aside, want 1: %+v", len(letters), letters)
	}
	t.Logf("docket deadletter ls says: %+v", letters[0])
	if l := letters[0]; l.ID != id || l.Status != "400" || !strings.Contains(l.Answer, "failed to parse field [number] of type [long]") {
		t.Errorf("got dead letter %+v, want %s with status 400 and what OpenSearch said of the field", l, id)
	}
	out := d.Run("deadletter", "show", "-f", d.ConfigFile(), "--sink", sink, "-o", "json", id)
	if !strings.Contains(string(out), lines[wrong-1]) {
		t.Errorf("docket deadletter show does not show the record: %.300s", out)
	}

	s.asks(t, http.MethodPut, "/"+index+"/_mapping", `{"properties":{"number":{"type":"long","ignore_malformed":true}}}`, nil)
	d.Run("deadletter", "redrive", "-f", d.ConfigFile(), "--sink", sink, id)
	d.Await("the record to be delivered", deliverTimeout, delivered(n))
	if rest := readLetters(t, d); len(rest) != 0 {
		t.Errorf("the dead letters still hold %+v", rest)
	}
	d.Stop()
	if n := check(t, status.Queue.ID, lines, s.readAll(t, index)); n > 0 {
		t.Errorf("%d documents are there twice", n)
	}
}

// openSearchBlocked blocks writes to the index, as OpenSearch does by itself when
// its disk is full. The sink stops, sets nothing aside, says what is wrong, and goes
// on when the block is gone.
func openSearchBlocked(t *testing.T, s *openSearch) {
	const index, n = "blocked", 600
	s.createIndex(t, index, "")
	d := dockettest.New(t)
	d.Start(config(d, bulk(s.address, index)))
	lines := readLines(t).first(2 * n)
	d.Send(text(lines[:n]))
	d.Await("the first half to be delivered", deliverTimeout, delivered(n))

	s.asks(t, http.MethodPut, "/"+index+"/_settings", `{"index.blocks.write":true}`, nil)
	d.Send(text(lines[n:]))
	status := d.Await("the sink to stop", deliverTimeout, failing("Error", "Misconfigured"))
	if l := status.Ledger.Sinks[sink]; l.Delivered != n || l.Pending != n || l.DeadLettered != 0 {
		t.Errorf("the books say %+v, want %d delivered, and as many pending", l, n)
	}
	t.Logf("the last error is: %s", status.Sink(sink).LastError)
	if text := status.Sink(sink).LastError; !strings.Contains(text, "index write (api)") {
		t.Errorf("the last error is %q, want OpenSearch's words", text)
	}

	s.asks(t, http.MethodPut, "/"+index+"/_settings", `{"index.blocks.write":false}`, nil)
	d.Await("everything to be delivered", deliverTimeout, delivered(2*n))
	d.Stop()
	if n := check(t, status.Queue.ID, lines, s.readAll(t, index)); n > 0 {
		t.Errorf("%d documents are there twice", n)
	}
}
