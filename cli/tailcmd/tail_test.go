package tailcmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docket-export/docket/exporter/adminclient"
	"github.com/docket-export/docket/exporter/filter"
)

// step is what a docket answers to two requests: of its status and of its records.
type step struct {
	last    int    // record of the queue; 0: docket is away
	records string // in the form of /queue/records; it begins with "refused" for another answer
}

// answering is a docket that goes through the steps, and then ends what asks it.
func answering(t *testing.T, steps ...step) (tl *tail, out, notes *strings.Builder, run func() error, queries *[]string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	queries = &[]string{}
	var at step
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/status" {
			if len(steps) == 0 {
				cancel()
				panic(http.ErrAbortHandler)
			}
			at, steps = steps[0], steps[1:]
			if at.last == 0 {
				panic(http.ErrAbortHandler)
			}
			fmt.Fprintf(w, `{"queue":{"lastSeq":%d}}`, at.last)
			return
		}
		*queries = append(*queries, r.URL.RawQuery)
		if strings.HasPrefix(at.records, "refused") {
			http.Error(w, at.records, http.StatusForbidden)
			return
		}
		fmt.Fprint(w, at.records)
	}))
	t.Cleanup(server.Close)
	out, notes = new(strings.Builder), new(strings.Builder)
	tl = &tail{client: adminclient.ForAddress(server.Listener.Addr().String()), out: bufio.NewWriter(out), notes: notes}
	return tl, out, notes, func() error { return tl.run(ctx, time.Millisecond) }, queries
}

func record(seq int) string {
	return fmt.Sprintf(`{"seq":%d,"id":"q-%d","source":"s","producer":"p","received":"2026-01-02T03:04:05Z","record":{ "n":%d}}`+"\n", seq, seq, seq)
}

// Each form, over a docket that is restarted; what was missed is said.
func TestTail(t *testing.T) {
	steps := []step{{last: 6}, {8, record(7) + record(8)}, {}, {8, ""}, {13, record(11) + record(12) + record(13)}}
	const lost = "connection to docket lost: waiting for docket\n2 records missed: docket no longer keeps them, or they are damaged\n"
	for name, test := range map[string]struct {
		json bool
		when string
		want string
	}{
		"text":     {want: "{ \"n\":7}\n{ \"n\":8}\n{ \"n\":11}\n{ \"n\":12}\n{ \"n\":13}\n"},
		"filtered": {when: "record.n == 8 || record.n == 12", want: "{ \"n\":8}\n{ \"n\":12}\n"},
		"json":     {json: true, want: record(7) + record(8) + `{"missed":2}` + "\n" + record(11) + record(12) + record(13)},
	} {
		t.Run(name, func(t *testing.T) {
			tl, out, notes, run, queries := answering(t, steps...)
			tl.json = test.json
			var err error
			if tl.when, err = filter.Compile(test.when); err != nil {
				t.Fatal(err)
			}
			if err := run(); err != nil {
				t.Errorf("got error %v", err)
			}
			if out.String() != test.want || notes.String() != lost || strings.Join(*queries, "|") != "from=7&to=8|from=9&to=13" {
				t.Errorf("got\n%s\n%s\n%s\nwant\n%s\n%s", out, notes, strings.Join(*queries, "|"), test.want, lost)
			}
		})
	}
}

// What ends a tail: a docket that refuses, what no docket answers, and a failure to write. Who
// reads no more has enough.
func TestTailEnds(t *testing.T) {
	for name, test := range map[string]struct {
		records string
		out     error
		want    string
	}{
		"refused":           {records: "refused: no socket", want: "refused: no socket"},
		"another server":    {records: "<html>hello\n", want: "<html>hello"},
		"endless":           {records: strings.Repeat("x", 18<<20), want: "a line has more than 17825792 bytes"},
		"nobody reads":      {records: record(2), out: syscall.EPIPE},
		"cannot be written": {records: record(2), out: syscall.ENOSPC, want: "no space left"},
	} {
		t.Run(name, func(t *testing.T) {
			tl, _, _, run, _ := answering(t, step{last: 1}, step{2, test.records})
			if test.out != nil {
				tl.out = bufio.NewWriter(failing{test.out})
			}
			if err := run(); test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
	_, _, _, run, _ := answering(t, step{})
	if err := run(); err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("of a docket that does not answer: got %v, want an error", err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
