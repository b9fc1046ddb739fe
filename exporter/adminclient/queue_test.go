package adminclient

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/exporter/deadletter"
	"github.com/docket-export/docket/exporter/queue/inspect"
	"github.com/docket-export/docket/exporter/queue/segment"
)

// fakeQueue answers as docket does, and breaks each answer off behind so many records.
func fakeQueue(t *testing.T, breakAfter int) *Client {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /queue", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"id":"q","lastSeq":9,"segments":[{"firstSeq":2}],"sinks":{"siem":{"next":7}}}`)
	})
	mux.HandleFunc("GET /queue/records", func(w http.ResponseWriter, r *http.Request) {
		var from, to uint64
		fmt.Sscan(r.URL.Query().Get("from"), &from)
		fmt.Sscan(r.URL.Query().Get("to"), &to)
		for seq := from; seq <= to; seq++ {
			if seq == from+uint64(breakAfter) {
				w.(http.Flusher).Flush()
				panic(http.ErrAbortHandler)
			}
			if seq == 5 {
				fmt.Fprintln(w, `{"finding":{"severity":"damage","kind":"DamagedFrames","file":"s","offset":8,"end":16,"lost":[{"firstSeq":5,"lastSeq":5}],"text":"gone"}}`)
				continue
			}
			record := segment.Record{Seq: seq, Incarnation: "q", Source: `a,"record":`, Producer: "<p>", Received: time.Unix(1, 5).UTC(), Data: fmt.Appendf(nil, `{ "record":%d}`, seq)}
			fmt.Fprintf(w, "%s\n", inspect.AppendRecord(nil, record))
		}
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return ForAddress(server.Listener.Addr().String())
}

// read returns what a queue has said, a word for each record and finding.
func read(t *testing.T, c *Client, r segment.SeqRange) (got []string, err error) {
	t.Helper()
	q, err := c.Queue(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	err = q.Read(t.Context(), r, func(r segment.Record) error {
		if r.Source != `a,"record":` || r.Producer != "<p>" || !r.Received.Equal(time.Unix(1, 5)) {
			t.Errorf("got %+v", r)
		}
		got = append(got, fmt.Sprintf("%d:%s", r.Seq, r.Data))
		return nil
	}, func(f inspect.Finding) error {
		got = append(got, f.String())
		return nil
	})
	return got, err
}

// An answer that breaks off is gone on with, and nothing comes twice.
func TestReadQueue(t *testing.T) {
	want := []string{`3:{ "record":3}`, `4:{ "record":4}`, "s:8: damage: gone", `6:{ "record":6}`, `7:{ "record":7}`, `8:{ "record":8}`, `9:{ "record":9}`}
	for name, breakAfter := range map[string]int{"at once": 1000, "in pieces": 2, "one at a time": 1} {
		t.Run(name, func(t *testing.T) {
			got, err := read(t, fakeQueue(t, breakAfter), segment.SeqRange{From: 3, To: 1 << 60})
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("got %q, %v, want %q", got, err, want)
			}
		})
	}
	if got, err := read(t, fakeQueue(t, 0), segment.SeqRange{From: 3, To: 5}); err == nil || len(got) > 0 {
		t.Errorf("without an answer: got %q, %v, want an error", got, err)
	}
}

// Who reads may stop.
func TestReadQueueEnds(t *testing.T) {
	q, err := fakeQueue(t, 1000).Queue(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	enough, n := errors.New("enough"), 0
	err = q.Read(t.Context(), segment.SeqRange{From: 1, To: 100}, func(segment.Record) error { n++; return enough }, nil)
	if !errors.Is(err, enough) || n != 1 {
		t.Errorf("got %v after %d records", err, n)
	}
}

func TestLineThatIsNoRecord(t *testing.T) {
	for _, line := range []string{"", "{}", `{"seq":"x","record":{}}`, "[1]"} {
		if r, err := inspect.ParseRecord([]byte(line)); err == nil || !strings.Contains(err.Error(), "not a record") {
			t.Errorf("%s: got %+v, %v", line, r, err)
		}
	}
}

// A list of dead letters is read as it comes. What answers may not be docket, or break off.
func TestDeadLettersOfAnother(t *testing.T) {
	for name, test := range map[string]struct {
		status int
		body   string
		want   string
	}{
		"good":          {200, "[{\"id\":\"q-1\"},\n{\"id\":\"q-2\"}]\n", ""},
		"not found":     {404, "404 page not found\n", "check that this is docket's admin endpoint"},
		"its words":     {403, "use admin.sock\n", "use admin.sock"},
		"no JSON":       {200, "<html>", "read the answer of docket at "},
		"breaks off":    {200, `[{"id":"q-1"},`, "read the answer of docket at "},
		"one and a bit": {200, `[{"id":"q-1"}`, "read the answer of docket at "},
		"control words": {500, "a\x1b[31mb", "a [31mb"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(test.status)
				fmt.Fprint(w, test.body)
			}))
			defer server.Close()
			n := 0
			err := ForAddress(server.Listener.Addr().String()).ListLetters(t.Context(), "siem", func(deadletter.Summary) error { n++; return nil })
			if test.want == "" && (err != nil || n != 2) || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %d letters and error %v, want %q", n, err, test.want)
			}
		})
	}
}
