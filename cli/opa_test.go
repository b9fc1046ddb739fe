package cli

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/docket-export/docket/cli/internal/command"
	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/decision/rawjson"
	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/internal/testcli"
)

// TestKillOPA kills docket at random moments while clients post chunks as OPA does: the
// same bytes again until they are answered 2xx. Some leave before the answer. Every
// decision is in the export exactly once, byte for byte.
func TestKillOPA(t *testing.T) {
	config, address, admin := opaConfig(t)
	clients := make([]*fakeOPA, 4)
	var wg sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	defer wg.Wait()
	defer stop()
	for i := range clients {
		clients[i] = &fakeOPA{t: t, url: "http://" + address + "/logs", name: fmt.Sprint("opa", i), random: rand.New(rand.NewPCG(uint64(i), 3))}
		wg.Go(func() { clients[i].run(ctx) })
	}
	eventually(t, "uploads that fail", func() bool {
		return !slices.ContainsFunc(clients, func(o *fakeOPA) bool { return o.again.Load() == 0 })
	})
	kills := onceIfShort(*kills)
	for range kills {
		p := startProcess(t, "run", "-f", config)
		if err := waitReady(t, admin); err != nil {
			t.Fatalf("%v:\n%s", err, p.stderr())
		}
		time.Sleep(time.Duration(rand.IntN(300)) * time.Millisecond) // the moment is what is random
		p.cmd.Process.Kill()
		p.wait()
	}
	last := startProcess(t, "run", "-f", config)
	if err := waitReady(t, admin); err != nil {
		t.Fatalf("%v:\n%s", err, last.stderr())
	}
	stop()
	wg.Wait()
	waitStatus(t, admin, func(s exporter.Status) bool {
		return s.Ledger.Stored > 0 && s.Ledger.Sinks["export"].Pending == 0
	})
	http.DefaultClient.CloseIdleConnections() // or docket would wait for what may still come
	last.interrupt()
	if got := last.wait(); got != command.ExitOK {
		t.Errorf("got exit code %d, want %d:\n%s", got, command.ExitOK, last.stderr())
	}

	seen := exportedDecisions(t)
	total, again, lost := 0, int64(0), 0
	for _, c := range clients {
		total, again = total+len(c.sent), again+c.again.Load()
		for _, text := range c.sent {
			id := rawjson.Member([]byte(text), "decision_id").String()
			if seen[id] != text {
				lost++
				t.Errorf("decision %s: got %q, want %q", id, seen[id], text)
			}
			delete(seen, id)
		}
	}
	for id := range seen {
		t.Errorf("got decision %s, which nobody was told is stored", id)
	}
	t.Logf("%d kills: %d decisions sent, chunks sent again %d times, %d lost", kills, total, again, lost)
}

func opaConfig(t *testing.T) (file, address, admin string) {
	t.Helper()
	var err error
	if address, err = testcli.FreeAddress(); err != nil {
		t.Fatal(err)
	}
	if admin, err = testcli.FreeAddress(); err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	writeFile(t, "docket.yaml", strings.NewReplacer("OPA", address, "ADMIN", admin).Replace(`apiVersion: docket.dev/v1alpha1
kind: Exporter
sources:
- name: opa
  opa: {address: "OPA"}
queue: {directory: queue, maxBytes: 64Mi}
sinks:
- name: export
  batch: {maxWait: 5ms}
  file: {directory: export, rotate: {maxBytes: 256Ki}}
admin: {address: "ADMIN"}
`))
	return "docket.yaml", address, admin
}

// TestOPAQueueFull: while the queue is full, uploads are answered 503 before OPA gives up,
// and everything is delivered once as soon as there is room.
func TestOPAQueueFull(t *testing.T) {
	var open atomic.Bool
	var mu sync.Mutex
	delivered := map[string]int{}
	sink := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !open.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		for line := range bytes.Lines(body) {
			delivered[rawjson.Member(line, "decision_id").String()]++
		}
	}))
	defer sink.Close()
	config, address, admin := opaConfig(t)
	text := readFile(t, config)
	text = strings.Replace(text, "maxBytes: 64Mi", "maxBytes: 16Mi", 1)
	text = strings.Replace(text, "  file: {directory: export, rotate: {maxBytes: 256Ki}}", "  retry: {initialBackoff: 50ms, maxBackoff: 50ms}\n  http: {url: "+sink.URL+"}", 1)
	writeFile(t, config, text)
	p := startProcess(t, "run", "-f", config)
	if err := waitReady(t, admin); err != nil {
		t.Fatalf("%v:\n%s", err, p.stderr())
	}

	post := func(n int) (status int, answer string) {
		body := fmt.Sprintf(`[{"decision_id":"d%d","input":"%s"}]`, n, strings.Repeat("x", 200<<10))
		resp, err := http.Post("http://"+address+"/logs", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(text)
	}
	full, answer := 0, ""
	for status := http.StatusOK; status == http.StatusOK; full++ {
		status, answer = post(full)
		if full > 100 {
			t.Fatal("got no queue that is full")
		}
	}
	// OPA waits for 10s. A busy machine may take longer to pass the answer on.
	if late := "not durable within 5s"; !strings.Contains(answer, late) {
		t.Errorf("got the answer %q, want %q", answer, late)
	}
	open.Store(true)
	for n := range full + 1 {
		eventually(t, "an upload that is taken", func() bool { status, _ := post(n); return status == http.StatusOK })
	}
	eventually(t, "every decision delivered", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(delivered) == full+1
	})
	http.DefaultClient.CloseIdleConnections() // or docket would wait for what may still come
	p.interrupt()
	p.wait()
	for id, n := range delivered {
		if n != 1 {
			t.Errorf("got decision %s delivered %d times, want once", id, n)
		}
	}
}

// fakeOPA uploads decisions.
type fakeOPA struct {
	t         *testing.T
	url, name string
	random    *rand.Rand

	again atomic.Int64 // uploads that were not answered 2xx
	sent  []string     // decisions whose chunk was; they belong to run until that returns
}

// run uploads chunks until ctx is done, and then goes on until the last is answered.
func (o *fakeOPA) run(ctx context.Context) {
	for ctx.Err() == nil {
		var decisions []string
		for range 1 + o.random.IntN(20) {
			decisions = append(decisions, fmt.Sprintf(`{"labels":{"id":%q},"decision_id":"%s-%d-%d","input":{"x": 1.10,"text":"\u003c%s"},"result":true}`,
				o.name, o.name, len(o.sent), len(decisions), strings.Repeat("x", o.random.IntN(500))))
		}
		var chunk bytes.Buffer
		z := gzip.NewWriter(&chunk)
		io.WriteString(z, "["+strings.Join(decisions, ",")+"]")
		z.Close()
		for !o.upload(chunk.Bytes()) {
			o.again.Add(1)
			time.Sleep(10 * time.Millisecond) // as OPA pauses
		}
		o.sent = append(o.sent, decisions...)
	}
}

// upload reports whether the chunk was accepted. Now and then it leaves too soon to hear
// of it.
func (o *fakeOPA) upload(chunk []byte) bool {
	wait := await.Left(o.t)
	if o.random.IntN(10) == 0 {
		wait = time.Duration(o.random.IntN(3000)) * time.Microsecond
	}
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, o.url, bytes.NewReader(chunk))
	if err != nil {
		return false
	}
	req.Header.Set("Content-Encoding", "gzip")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	io.Copy(io.Discard, resp.Body)
	return resp.StatusCode/100 == 2
}

// exportedDecisions returns what the file sink has written, by decision_id. A decision
// that is there twice is an error.
func exportedDecisions(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("export/decisions-*.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]string)
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		for s := bufio.NewScanner(f); s.Scan(); {
			if isCheckpoint(s.Text()) {
				continue
			}
			id := rawjson.Member(s.Bytes(), "decision_id").String()
			if seen[id] != "" {
				t.Errorf("%s: got decision %s a second time", name, id)
			}
			seen[id] = s.Text()
		}
		f.Close()
	}
	return seen
}
