package exporter

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/exporter/queue"
	"github.com/docket-export/docket/sources"
)

// storeRecords puts records from..to, each {"n":<its seq>}, into the queue of e.
func storeRecords(t *testing.T, e *Exporter, from, to int) {
	t.Helper()
	for i := from; i <= to; i++ {
		stored := make(chan struct{})
		c := &queue.Chunk{Source: "webhook", Producer: "p", Records: fmt.Appendf(nil, "{\"n\":%d}\n", i), Count: 1, Lines: 1}
		if err := e.queue.Append(t.Context(), c, func() { close(stored) }); err != nil {
			t.Fatal(err)
		}
		<-stored
	}
}

// What is in the queue is for those who may, and its records are as they came.
func TestQueueOverTheSocket(t *testing.T) {
	e := letterExporter(t)
	storeRecords(t, e, 1, 3)
	c := over(t, e)
	for path, want := range map[string]struct {
		status int
		has    []string
	}{
		"/queue":                            {200, []string{`"lastSeq":3`, `"siem":{"next":1,"pending":3,`, `"id":"` + e.queue.ID()}},
		"/queue/records":                    {200, []string{`{"seq":1,`, `"id":"` + e.queue.Lineage().At(3) + `-3","source":"webhook","producer":"p"`, `"record":{"n":3}}` + "\n"}},
		"/queue/records?from=3":             {200, []string{`{"seq":3,`}},
		"/queue/records?from=2&to=1":        {200, nil},
		"/queue/records?sink=siem&to=1":     {200, []string{`{"seq":1,`}},
		"/queue/records?from=x":             {400, []string{`from="x": must be the number of a record`}},
		"/queue/records?to=-1":              {400, []string{`to="-1": must be the number of a record`}},
		"/queue/records?sink=none":          {400, []string{"sink must be a sink of the queue"}},
		"/queue/records?sink=siem&from=2":   {400, []string{"combined with from"}},
		"/queue/records?to=99999999&from=1": {200, []string{`{"seq":3,`}},
	} {
		status, answer := request(t, c, http.MethodGet, "http://docket"+path, "", "")
		if status != want.status || want.has == nil && answer != "" {
			t.Errorf("%s: got %d %s, want %d", path, status, answer, want.status)
		}
		for _, text := range want.has {
			if !strings.Contains(answer, text) {
				t.Errorf("%s: got %s, want in it %s", path, answer, text)
			}
		}
	}
	if _, answer := request(t, c, http.MethodGet, "http://docket/queue/records?from=3", "", ""); strings.Count(answer, "\n") != 1 {
		t.Errorf("got %s, want one record", answer)
	}
}

// The queue is read by a few at a time, and by one more when one of them has ended.
func TestFewReadTheQueueAtATime(t *testing.T) {
	e := letterExporter(t)
	c := over(t, e)
	for range maxLookers {
		e.lookers <- struct{}{}
	}
	for _, path := range []string{"/queue", "/queue/records"} {
		if status, answer := request(t, c, http.MethodGet, "http://docket"+path, "", ""); status != 503 || !strings.Contains(answer, "is reading the queue") {
			t.Errorf("%s: got %d %s, want 503", path, status, answer)
		}
	}
	<-e.lookers
	for range 3 {
		if status, answer := request(t, c, http.MethodGet, "http://docket/queue", "", ""); status != 200 {
			t.Errorf("got %d %s, want 200", status, answer)
		}
	}
}

// private are the requests that show records or change something.
var private = []string{"GET /deadletters", "GET /queue", "GET /queue/records", "POST /sinks/siem/retry", "POST /sinks/siem/replay"}

// Nobody gets at them over the address.
func TestPrivateRequests(t *testing.T) {
	server := httptest.NewServer(letterExporter(t).adminHandler(false))
	defer server.Close()
	for _, what := range private {
		method, path, _ := strings.Cut(what, " ")
		if status, answer := request(t, server.Client(), method, server.URL+path, "", ""); status != 403 || !strings.Contains(answer, "use "+AdminSocket) {
			t.Errorf("%s: got %d %s, want 403 and the socket", what, status, answer)
		}
	}
}

// A source is shown what it has stored itself, in order.
func TestWhatASourceHasStored(t *testing.T) {
	e := letterExporter(t)
	storeRecords(t, e, 1, 3)
	for source, want := range map[string]string{"webhook": `p {"n":1};p {"n":2};p {"n":3};`, "other": ""} {
		var got strings.Builder
		err := e.visitStored(t.Context(), source, func(producer string, record []byte) { fmt.Fprintf(&got, "%s %s;", producer, record) })
		if got.String() != want || err != nil {
			t.Errorf("%s: got %q, %v, want %q", source, got.String(), err, want)
		}
	}
}

// Who reads the queue does not keep a source from its start.
func TestReadersDoNotHoldUpASource(t *testing.T) {
	e := letterExporter(t)
	storeRecords(t, e, 1, 1)
	for range maxLookers {
		e.lookers <- struct{}{}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	shown := 0
	if err := e.visitStored(ctx, "webhook", func(string, []byte) { shown++ }); err != nil || shown != 1 {
		t.Errorf("got %d records, %v, want 1", shown, err)
	}
}

// A source that starts again is shown also what was on its way to the disk when it ended.
func TestWhatWasOnItsWayIsShown(t *testing.T) {
	e := letterExporter(t)
	o := sources.Opening{Source: "webhook", Producer: "p", Next: 1, Evict: func() {}}
	opened, _, err := intake{ingest: e.ingest}.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	before := opened.(*session)
	before.begin() // its chunk is in a commit
	before.Close()
	shown := make(chan int)
	go func() {
		n := 0
		if err := e.visitStored(t.Context(), "webhook", func(string, []byte) { n++ }); err != nil {
			t.Error(err)
		}
		shown <- n
	}()
	select {
	case n := <-shown:
		t.Fatalf("got %d records before the commit", n)
	case <-time.After(100 * time.Millisecond):
	}
	storeRecords(t, e, 1, 1)
	before.finish()
	if n := <-shown; n != 1 {
		t.Errorf("got %d records, want the one of the commit", n)
	}
}
