package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docket-export/docket/exporter"
)

// start is the time at which tests begin.
var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestWriteStatus(t *testing.T) {
	since := start.Add(-90 * time.Second)
	for name, test := range map[string]struct {
		status exporter.Status
		want   string
	}{
		"in trouble": {
			exporter.Status{
				Queue: exporter.QueueStatus{FirstSeq: 11, LastSeq: 1000, Bytes: 1536 << 10, MaxBytes: 2 << 30, State: exporter.Degraded, Reason: "full"},
				Ledger: exporter.Ledger{
					Received: 1004, Stored: 1000, Duplicate: 1, Refused: map[string]uint64{"TooLarge": 1, "InvalidJSON": 2, "QueueFull": 0},
					Sinks: map[string]exporter.SinkLedger{
						"bus":  {Delivered: 900, DeadLettered: 1, Pending: 99},
						"siem": {Delivered: 1000},
					},
				},
				Sources: []exporter.SourceStatus{{Name: "webhook", State: exporter.Active, Connections: 2}},
				Sinks: []exporter.SinkStatus{
					{Name: "bus", State: exporter.Degraded, Reason: "Transient", LastError: "dial: refused\x1b[31m\nnow", Since: &since, LagSeconds: 12.54},
					{Name: "siem", State: exporter.Active, Since: &since},
				},
				Config: exporter.ConfigStatus{State: exporter.Degraded, LastError: "line 3: bad"},
			},
			`SINK  STATE               REASON     PENDING  DELIVERED  LAG    LAST ERROR
bus   Degraded for 1m30s  Transient  99       900        12.5s  dial: refused [31m now
siem  Active              -          0        1000       -      -

SOURCE   STATE   REASON  CONNECTIONS
webhook  Active  -       2

queue   Degraded (full): 1.5 MiB of 2 GiB, records 11 to 1000 kept
ledger  received 1004 = stored 1000 + refused 3 + duplicate 1 (InvalidJSON 2, TooLarge 1)
        bus: filtered 0, dead-lettered 1, dropped 0, corrupt 0
config  Degraded: line 3: bad
`,
		},
		"new": {
			exporter.Status{
				Queue: exporter.QueueStatus{FirstSeq: 1, MaxBytes: 1000, State: exporter.Active},
				Sinks: []exporter.SinkStatus{{Name: "a", State: exporter.Error, Reason: "Misconfigured", LagSeconds: 3725.9}},
			},
			`SINK  STATE  REASON         PENDING  DELIVERED  LAG     LAST ERROR
a     Error  Misconfigured  0        0          1h2m6s  -

SOURCE  STATE  REASON  CONNECTIONS

queue   Active: 0 B of 1000 B, nothing kept
ledger  received 0 = stored 0 + refused 0 + duplicate 0
`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			if err := writeStatus(&b, test.status, start); err != nil {
				t.Fatal(err)
			}
			if got := b.String(); got != test.want {
				t.Errorf("got\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}

// TestStatusPrints: -o json passes the document on, byte for byte, whatever it
// is; text needs to understand it.
func TestStatusPrints(t *testing.T) {
	const document = `{ "later": [1.50],"queue":{"state":"Active"} }` + "\n\n"
	for name, test := range map[string]struct {
		answer  string
		code    int
		json    bool
		want    string
		wantErr string
	}{
		"json":            {answer: document, code: 200, json: true, want: document},
		"text":            {answer: document, code: 200, want: "SINK  STATE"},
		"something else":  {answer: "<html>", code: 200, wantErr: "is not docket"},
		"not found":       {answer: document, code: 404, wantErr: "answers 404 Not Found, not a status"},
		"without an end":  {answer: strings.Repeat(" ", maxStatus+1), code: 200, json: true, wantErr: "answers more than 16777216 bytes"},
		"json, not found": {answer: document, code: 404, json: true, wantErr: "answers 404 Not Found, not a status"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if got, want := r.URL.Path, "/status"; got != want {
					t.Errorf("got a request for %s, want %s", got, want)
				}
				w.WriteHeader(test.code)
				io.WriteString(w, test.answer)
			}))
			defer server.Close()
			var b strings.Builder
			s := newStatusCommand(server.Listener.Addr().String(), test.json)
			err := s.print(t.Context(), &b)
			if test.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), test.wantErr) {
					t.Errorf("got error %v, want one with %q", err, test.wantErr)
				}
				return
			}
			if err != nil || !strings.HasPrefix(b.String(), test.want) || test.json && b.String() != test.want {
				t.Errorf("got %q, %v, want %q", b.String(), err, test.want)
			}
		})
	}
}

// TestStatusWatch: an exporter that goes away and comes back is shown when it is
// back.
func TestStatusWatch(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		switch requests.Add(1) {
		case 1:
			w.WriteHeader(http.StatusServiceUnavailable)
		case 3:
			cancel()
		default:
			io.WriteString(w, "{}\n")
		}
	}))
	defer server.Close()
	var out, complaints strings.Builder
	s := newStatusCommand(server.Listener.Addr().String(), true)
	if err := s.watch(ctx, &out, &complaints, time.Millisecond); err != nil {
		t.Errorf("got error %v, want none", err)
	}
	if got, want := out.String(), "{}\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := strings.Count(complaints.String(), "503"), 1; got != want {
		t.Errorf("got complaints %q, want one", complaints.String())
	}
}
