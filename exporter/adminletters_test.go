package exporter

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/exporter/deadletter"
	"github.com/docket-export/docket/sinks"
)

// letterExporter is one with the sinks "siem" and "bus", of which siem has letters
// with the given seqs. It does not deliver.
func letterExporter(t *testing.T, seqs ...uint64) *Exporter {
	t.Helper()
	sink := func(name string) SinkConfig {
		return SinkConfig{
			Name: name, Batch: sinks.DefaultBatch(), Retry: defaultRetry(), From: Oldest, OnReject: DeadLetter,
			DeadLetters: defaultDeadLetters(), Config: stuckSink{},
		}
	}
	e, err := New(&Config{
		Queue:  QueueConfig{Directory: filepath.Join(t.TempDir(), "queue"), MaxBytes: 1 << 30, WhenFull: Block},
		Limits: defaultLimits(),
		Sinks:  []SinkConfig{sink("siem"), sink("bus")},
	}, Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, d := range e.parts().deliveries {
			d.letters.close()
		}
		if err := e.queue.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	var list []deadletter.Letter
	for _, seq := range seqs {
		failed := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		list = append(list, deadletter.Letter{
			Seq: seq, Incarnation: e.queue.ID(), Source: "webhook", Received: failed.Add(-time.Hour), Reason: "answered 422", Status: "422", Answer: "no such field",
			Attempts: 2, FirstFailed: failed, LastFailed: failed.Add(time.Minute), Record: fmt.Appendf(nil, ` {"n": %d, "x":"<\u00e9>"}`+"\t", seq),
		})
	}
	if err := e.letters("siem").with(func(s *deadletter.Store) error { return s.Add(list) }); err != nil {
		t.Fatal(err)
	}
	return e
}

// over returns a client of the admin socket.
func over(t *testing.T, e *Exporter) *http.Client {
	t.Helper()
	stop := e.serveSocket()
	t.Cleanup(stop)
	return overSocket(e)
}

// overSocket asks over the admin socket of e.
func overSocket(e *Exporter) *http.Client {
	path := filepath.Join(e.config().Queue.Directory, AdminSocket)
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}
	return &http.Client{Transport: transport, Timeout: time.Minute}
}

func request(t *testing.T, c *http.Client, method, url, token, body string) (status int, answer string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", token)
	}
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

func TestLettersOverTheSocket(t *testing.T) {
	e := letterExporter(t, 3, 5, 8)
	id := func(seq uint64) string { return deadletter.ID(e.queue.ID(), seq) }
	c := over(t, e)
	const about = `"reason":"answered 422","status":"422","answer":"no such field","attempts":2,` +
		`"firstFailed":"2026-01-02T03:04:05Z","lastFailed":"2026-01-02T03:05:05Z","source":"webhook","received":"2026-01-02T02:04:05Z"`
	for _, step := range []struct {
		method, path, body string
		status             int
		want               string // the answer; with a * behind it, how it begins
	}{
		{"GET", "/deadletters/siem", "", 200, `[{"id":"` + id(3) + `","sink":"siem","state":"Kept",` + about + `},` + "\n*"},
		{"GET", "/deadletters/bus", "", 200, "[]\n"},
		{"GET", "/deadletters/siem/" + id(5), "", 200, `{"id":"` + id(5) + `","sink":"siem","state":"Kept",` + about + `,"record": {"n": 5, "x":"<\u00e9>"}` + "\t}\n"},
		{"GET", "/deadletters/siem/8", "", 200, `{"id":"` + id(8) + `"*`},
		{"GET", "/deadletters/siem/9", "", 404, "sink siem has no dead letter 9\n"},
		{"GET", "/deadletters/siem/x", "", 400, `"x" is not a record id: *`},
		{"GET", "/deadletters/siem/other-5", "", 404, "sink siem has no dead letter other-5\n"},
		{"GET", "/deadletters/none", "", 404, `no sink "none" is running: the running sinks are bus, siem` + "\n"},
		{"POST", "/deadletters/siem/redrive", `{"ids":["` + id(3) + `","5","77"]}`, 200, `{"count":2,"unknown":["77"]}` + "\n"},
		{"GET", "/deadletters", "", 200, `[{"sink":"siem","kept":1,"redriving":2,"bytes":*`},
		{"GET", "/deadletters/siem/3", "", 200, `{"id":"` + id(3) + `","sink":"siem","state":"Redriving",*`},
		{"POST", "/deadletters/siem/redrive", `{"all":true}`, 200, `{"count":1}` + "\n"},
		{"POST", "/deadletters/siem/purge", `{"ids":["5"]}`, 200, `{"count":1}` + "\n"},
		{"POST", "/deadletters/siem/purge", `{"all":true}`, 200, `{"count":2}` + "\n"},
		{"POST", "/deadletters/siem/purge", `{"all":true}`, 200, `{"count":0}` + "\n"},
		{"GET", "/deadletters/siem", "", 200, "[]\n"},
		{"POST", "/deadletters/siem/purge", `{}`, 400, "the body must have either ids or*"},
		{"POST", "/deadletters/siem/purge", `{"ids":[]}`, 400, "the body must have either ids or*"},
		{"POST", "/deadletters/siem/purge", `{"ids":["1"],"all":true}`, 400, "the body must have either ids or*"},
		{"POST", "/deadletters/siem/purge", `{"ids":["x"]}`, 400, `"x" is not a record id: *`},
		{"POST", "/deadletters/siem/purge", `{"al":true}`, 400, "the body must be *"},
		{"POST", "/deadletters/siem/purge", `{"ids":["` + strings.Repeat("1", maxChangeBytes) + `"]}`, 413, "the body has more than *"},
		{"POST", "/deadletters/siem/forget", `{"all":true}`, 405, "*"},
		{"PUT", "/deadletters/siem/purge", `{"all":true}`, 405, "*"},
		{"GET", "/status", "", 200, "{\n*"},
	} {
		status, answer := request(t, c, step.method, "http://docket"+step.path, "", step.body)
		head, begins := strings.CutSuffix(step.want, "*")
		if status != step.status || !strings.HasPrefix(answer, head) || !begins && answer != step.want {
			t.Errorf("%s %s %.80s: got %d %s\nwant %d %s", step.method, step.path, step.body, status, answer, step.status, step.want)
		}
	}
}

// More letters than a page has come in one array, in order.
func TestLettersInPages(t *testing.T) {
	var seqs []uint64
	for seq := uint64(1); seq <= 2*letterPage+3; seq++ {
		seqs = append(seqs, seq)
	}
	e := letterExporter(t, seqs...)
	_, answer := request(t, over(t, e), "GET", "http://docket/deadletters/siem", "", "")
	var list []deadletter.Summary
	if err := json.Unmarshal([]byte(answer), &list); err != nil {
		t.Fatal(err)
	}
	for i, s := range list {
		if want := deadletter.ID(e.queue.ID(), seqs[i]); s.ID != want {
			t.Fatalf("letter %d: got %s, want %s", i, s.ID, want)
		}
	}
	if got, want := len(list), len(seqs); got != want {
		t.Errorf("got %d letters, want %d", got, want)
	}
}

func TestAdminSocket(t *testing.T) {
	e := letterExporter(t)
	path := filepath.Join(e.config().Queue.Directory, AdminSocket)
	stop := e.serveSocket()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := info.Mode(), os.ModeSocket|0o600; got != want {
		t.Errorf("got mode %v, want %v", got, want)
	}
	stop()
	if _, err := os.Lstat(path); err == nil {
		t.Error("got a socket after the end, want none")
	}

	// A process that was killed leaves its socket.
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	dead.Close()
	if status, _ := request(t, over(t, e), "GET", "http://docket/deadletters", "", ""); status != 200 {
		t.Errorf("got status %d, want 200 over the socket of a dead process", status)
	}
}

func TestNoAdminSocket(t *testing.T) {
	for name, tt := range map[string]struct {
		prepare func(t *testing.T, e *Exporter) (path string)
		want    string
	}{
		"path too long": {func(_ *testing.T, e *Exporter) string {
			e.config().Queue.Directory = filepath.Join(e.config().Queue.Directory, strings.Repeat("long/", 20))
			return e.config().Queue.Directory
		}, "the limit is 107"},
		"a file in the way": {func(t *testing.T, e *Exporter) string {
			path := filepath.Join(e.config().Queue.Directory, AdminSocket)
			if err := os.WriteFile(path, []byte("kept"), 0o600); err != nil {
				t.Fatal(err)
			}
			return path
		}, "a file that is not a socket exists there"},
	} {
		t.Run(name, func(t *testing.T) {
			e := letterExporter(t)
			var log bytes.Buffer
			e.log = slog.New(slog.NewTextHandler(&log, nil))
			path := tt.prepare(t, e)
			e.serveSocket()()
			for _, want := range []string{"level=WARN", path, tt.want} {
				if !strings.Contains(log.String(), want) {
					t.Errorf("got log %q, want %q in it", log.String(), want)
				}
			}
		})
	}
}

// A page in a browser on this machine may have its own name lead to the endpoint.
func TestAdminAnswersToItsAddressOnly(t *testing.T) {
	e := letterExporter(t)
	h := ownHost(e.adminHandler(true))
	for host, want := range map[string]int{
		"127.0.0.1:9464": 200, "localhost:9464": 200, "localhost": 200, "[::1]:9464": 200, "[::1]": 200, "127.0.0.1": 200,
		"evil.example": 421, "evil.example:9464": 421, "127.0.0.1.evil.example:9464": 421, "": 421,
	} {
		r := httptest.NewRequest(http.MethodGet, "/livez", http.NoBody)
		r.Host = host
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != want {
			t.Errorf("Host %q: got status %d, want %d", host, w.Code, want)
		}
	}
}

// What is changed for good is changed for a body that is clear.
func TestContradictoryBodyChangesNothing(t *testing.T) {
	e := letterExporter(t, 3, 4)
	for _, body := range []string{`{"all":true} garbage`, `{"ids":["3"]}{"all":true}`, `{"all":true,"ids":["3"]}`, `{}`, ``} {
		r := httptest.NewRequest(http.MethodPost, "/deadletters/siem/purge", strings.NewReader(body))
		w := httptest.NewRecorder()
		if e.adminHandler(true).ServeHTTP(w, r); w.Code != http.StatusBadRequest {
			t.Errorf("body %q: got status %d, want 400", body, w.Code)
		}
	}
	if got := e.letters("siem").stats().Letters; got != 2 {
		t.Errorf("%d letters are left, want 2", got)
	}
}
