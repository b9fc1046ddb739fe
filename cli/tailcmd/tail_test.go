package tailcmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/docket-export/docket/exporter/adminclient"
)

// answering is a docket that gives the answers one after the other, each until it breaks off,
// and then ends what asks it.
func answering(t *testing.T, answers ...string) (tl *tail, out, notes *strings.Builder, run func() error, queries *[]string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	var asked atomic.Int32
	queries = &[]string{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := int(asked.Add(1))
		if n > len(answers) {
			cancel()
			return
		}
		*queries = append(*queries, r.URL.RawQuery)
		if strings.HasPrefix(answers[n-1], "refused") {
			http.Error(w, answers[n-1], http.StatusNotFound)
			return
		}
		io.WriteString(w, answers[n-1])
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(server.Close)
	out, notes = new(strings.Builder), new(strings.Builder)
	tl = &tail{client: adminclient.ForAddress(server.Listener.Addr().String()), out: bufio.NewWriter(out), notes: notes}
	return tl, out, notes, func() error { return tl.run(ctx, time.Millisecond) }, queries
}

func record(seq int, outcome string) string {
	if outcome != "" {
		outcome = `"outcome":"` + outcome + `",`
	}
	return fmt.Sprintf(`{"seq":%d,"id":"q-%d","source":"s","producer":"p","received":"2026-01-02T03:04:05Z",%s"record":{ "n":%d}}`+"\n", seq, seq, outcome, seq)
}

// Each form, over a docket that is restarted; what was missed is said.
func TestTail(t *testing.T) {
	for name, test := range map[string]struct {
		json       bool
		sink, when string
		answers    []string
		want       string
		notes      string
		queries    string
	}{
		"text": {
			answers: []string{record(7, "") + record(8, ""), `{"missed":3}` + "\n" + record(12, "")},
			want:    "{ \"n\":7}\n{ \"n\":8}\n{ \"n\":12}\n",
			notes:   "connection to docket lost: waiting for docket\n3 records missed: records came faster than tail could show them\nconnection to docket lost: waiting for docket\n",
			queries: "|from=9",
		},
		"json": {
			json: true, when: "true", answers: []string{record(7, "") + `{"missed":1}` + "\n"},
			want:    record(7, "") + `{"missed":1}` + "\n",
			notes:   "1 record missed: records came faster than tail could show them\nconnection to docket lost: waiting for docket\n",
			queries: "when=true",
		},
		"sink": {
			sink: "siem", answers: []string{record(7, "filtered"), record(7, "delivered")},
			want:    "7\tfiltered\t{ \"n\":7}\n7\tdelivered\t{ \"n\":7}\n",
			notes:   strings.Repeat("connection to docket lost: waiting for docket\n", 2),
			queries: "sink=siem|sink=siem",
		},
	} {
		t.Run(name, func(t *testing.T) {
			tl, out, notes, run, queries := answering(t, test.answers...)
			tl.json, tl.sink, tl.when = test.json, test.sink, test.when
			if err := run(); err != nil {
				t.Errorf("got error %v", err)
			}
			if out.String() != test.want || notes.String() != test.notes || strings.Join(*queries, "|") != test.queries {
				t.Errorf("got\n%s\n%s\n%s\nwant\n%s\n%s\n%s", out, notes, strings.Join(*queries, "|"), test.want, test.notes, test.queries)
			}
		})
	}
}

// A docket that refuses has said why, also after a restart.
func TestTailIsRefused(t *testing.T) {
	for _, answers := range [][]string{{"refused: no sink"}, {record(1, ""), "refused: no sink"}} {
		_, _, _, run, _ := answering(t, answers...)
		if err := run(); err == nil || err.Error() != "refused: no sink" {
			t.Errorf("got %v, want what docket said", err)
		}
	}
}

// What no docket answers ends the tail, which says what came: to ask again is in vain.
func TestTailOfNonsense(t *testing.T) {
	for answer, want := range map[string]string{
		"<html>hello\n":             `line "<html>hello": invalid character '<'`,
		"{}\n":                      `line "{}": missing record`,
		`{"record":` + "\n":         `line "{\"record\":": `,
		strings.Repeat("x", 18<<20): "a line has more than 17825792 bytes",
	} {
		for _, answers := range [][]string{{answer}, {record(1, ""), answer}} {
			_, _, notes, run, _ := answering(t, answers...)
			err := run()
			if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "it is not docket's admin endpoint") || strings.Count(notes.String(), "\n") != len(answers)-1 {
				t.Errorf("%.20q: got %v and %q, want an error with %q", answers, err, notes, want)
			}
		}
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// Who reads no more has enough; any other failure to write is one.
func TestTailOutputEnds(t *testing.T) {
	for _, test := range []struct{ fail, want error }{{syscall.EPIPE, nil}, {syscall.ENOSPC, syscall.ENOSPC}} {
		tl, _, _, run, _ := answering(t, record(1, ""))
		tl.out = bufio.NewWriter(failing{test.fail})
		if err := run(); !errors.Is(err, test.want) {
			t.Errorf("got %v, want %v", err, test.want)
		}
	}
}
