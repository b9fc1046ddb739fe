package statuscmd

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
	"github.com/docket-export/docket/exporter/adminclient"
)

// start is the time at which tests begin.
var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestWriteStatus(t *testing.T) {
	ago := func(d time.Duration) *time.Time {
		at := start.Add(-d)
		return &at
	}
	const disk = "disk full: free space on the file system of /var/lib/docket, or enlarge it; nothing new is acknowledged until " +
		"the disk takes writes again, and no restart is needed then (segment 00000000000000000001-0000000001: write at 4096: no space left on device)"
	for name, test := range map[string]struct {
		status exporter.Status
		want   string
	}{
		"in trouble": {
			exporter.Status{
				Queue: exporter.QueueStatus{FirstSeq: 11, LastSeq: 1000, Bytes: 1536 << 10, MaxBytes: 2 << 30, State: exporter.Error, Reason: disk, Since: ago(time.Hour + 125*time.Second)},
				Ledger: exporter.Ledger{
					Received: 1004, Stored: 1000, Duplicate: 1, Refused: map[string]uint64{"TooLarge": 1, "InvalidJSON": 2, "QueueFull": 0},
					Lost: map[string]uint64{"deny": 3, "allow": 5000000000, "warn": 0},
					Sinks: map[string]exporter.SinkLedger{
						"bus":     {Delivered: 880, DeadLettered: 1, Dropped: 20, Pending: 99},
						"siem":    {Delivered: 1000},
						"archive": {Delivered: 1000},
					},
				},
				Sources: []exporter.SourceStatus{
					{Name: "webhook", State: exporter.Active, Connections: 2, Address: "/run/docket.sock", Records: 1004, RecordsPerSecond: 12.34, LastRecord: ago(3 * time.Second)},
					{Name: "audit", State: exporter.Error, Reason: "listen: address in use"},
				},
				Sinks: []exporter.SinkStatus{
					{Name: "bus", State: exporter.Degraded, Reason: "Transient", LastError: "dial: refused\x1b[31m\nnow", LastErrorTime: ago(2 * time.Second), Since: ago(90 * time.Second), LagSeconds: 12.54, Pending: 98, Attempts: 6, NextAttempt: ago(-30 * time.Second)},
					{Name: "siem", State: exporter.Active, Since: ago(90 * time.Second), LastError: "dial tcp 10.96.1.17:443: connect: connection refused by the other side, which is not up", LastErrorTime: ago(3*time.Minute + 7*time.Second)},
					{Name: "archive", State: exporter.Active, Since: ago(90 * time.Second), Transactions: &exporter.TransactionStatus{Committed: 12, Aborted: 1, Position: 1001}},
					{Name: "copy", State: exporter.Active, Transactions: &exporter.TransactionStatus{Committed: 1, Fenced: 1}},
				},
				Config: exporter.ConfigStatus{State: exporter.Degraded, LastError: "line 3: bad"},
			},
			`SINK     STATE               PENDING  DELIVERED  DEAD-LETTERED  DROPPED  LAG
bus      Degraded for 1m30s  98       880        1              20       12.5s
siem     Active              0        1000       0              0        -
archive  Active              0        1000       0              0        -
copy     Active              0        0          0              0        -
bus: Transient 2s ago, attempt 7 in 30s: dial: refused [31m now
siem: works again, last error 3m7s ago: dial tcp 10.96.1.17:443: connect:
  connection refused by the other side, which is not up
archive: 12 transactions committed, 1 aborted; the destination is at record 1001
copy: 1 transaction committed, 0 aborted, fenced by another docket

SOURCE   STATE   RECORDS  RATE  LAST    CONNECTIONS
webhook  Active  1004     12/s  3s ago  2
audit    Error   0        -     -       -
audit: listen: address in use

queue   Error for 1h2m: 1.5 MiB of 2 GiB, records 11 to 1000 kept
        disk full: free space on the file system of /var/lib/docket, or enlarge
        it; nothing new is acknowledged until the disk takes writes again, and
        no restart is needed then (segment 00000000000000000001-0000000001:
        write at 4096: no space left on device)
ledger  received 1004 = stored 1000 + refused 3 + duplicate 1
        refused: InvalidJSON 2, TooLarge 1
        reported lost by producers: allow 5000000000, deny 3
config  Degraded: line 3: bad
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
			for line := range strings.Lines(b.String()) {
				if n := len(line) - 1; n > 80 {
					t.Errorf("got a line of %d characters, want at most 80: %s", n, line)
				}
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
		"not found":       {code: 404, wantErr: "answered 404 Not Found: check that this is docket's admin endpoint"},
		"without an end":  {answer: strings.Repeat(" ", 16<<20+1), code: 200, json: true, wantErr: "answered more than 16777216 bytes"},
		"json, not found": {code: 404, json: true, wantErr: "answered 404 Not Found: check that this is docket's admin endpoint"},
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
			s := statusCommand{client: adminclient.ForAddress(server.Listener.Addr().String()), json: test.json}
			s.timeout = 2 * time.Minute // another machine may be busy
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
	s := statusCommand{client: adminclient.ForAddress(server.Listener.Addr().String()), json: true}
	s.timeout = 2 * time.Minute // another machine may be busy
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
