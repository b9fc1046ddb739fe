package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docket-export/docket/client"
	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/decision"
	"github.com/docket-export/docket/exporter/deadletter"
)

// bystanders are what docket reads beside the producers while its power is cut: the
// export of an audit, a log that rotates, and an engine whose client outlives docket.
type bystanders struct {
	c      *crashes
	log    *logWriter
	audit  string // a run as Gatekeeper writes it
	lives  int
	client *client.Client   // of the engine
	due    []string         // lines that every export must have, once each
	seen   []map[string]int // in the exports, which are cut and kept

	siem    *httptest.Server
	rejects func(line string) bool
	mu      sync.Mutex
	took    map[string]bool // by the server; guarded by mu
}

// newBystanders starts the destination, which rejects every third line of the engine.
func newBystanders(t *testing.T, dir string) *bystanders {
	t.Helper()
	b := &bystanders{log: newLogWriter(t, dir), audit: readFile(t, "../testdata/records/gatekeeper-audit.ndjson"), took: map[string]bool{}}
	b.seen = []map[string]int{{}, {}}
	b.rejects = func(line string) bool { return strings.Contains(line, `"third":0`) }
	b.siem = httptest.NewServer(http.HandlerFunc(b.take))
	t.Cleanup(b.siem.Close)
	if err := os.MkdirAll(filepath.Join(dir, "topics", "audit"), 0o755); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bystanders) take(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // a docket without power
	}
	lines := strings.Split(strings.TrimSuffix(string(body), "\n"), "\n")
	for _, line := range lines {
		if b.rejects(line) {
			http.Error(w, "never", http.StatusBadRequest)
			return
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, line := range lines {
		b.took[line] = true
	}
}

// act writes a run and some lines of the log, and lets the engine live and end.
func (b *bystanders) act() {
	t := b.c.t
	t.Helper()
	b.lives++
	id := time.Date(2026, 11, 21, 0, 0, 10*b.lives, 0, time.UTC).Format(time.RFC3339)
	run := strings.ReplaceAll(b.audit, "2026-11-21T07:38:01Z", id)
	part, whole := filepath.Join(b.c.dir, "run"), filepath.Join(b.c.dir, "topics", "audit", strings.ReplaceAll(id, ":", "_")+".log")
	writeFile(t, part, run)
	if err := os.Rename(part, whole); err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(strings.TrimSuffix(run, "\n"), "\n")
	for _, line := range lines {
		b.due = append(b.due, strings.TrimSuffix(line, "\n"))
	}
	b.log.write(1 + b.c.dice.IntN(60))
	if b.c.dice.IntN(2) == 0 {
		b.log.rotate()
	}
	b.engine(1 + b.c.dice.IntN(9))
}

// engine logs some records. Those that docket has not acknowledged when its power is cut are sent again.
func (b *bystanders) engine(records int) {
	t := b.c.t
	t.Helper()
	if b.client == nil {
		c, err := client.New(client.Config{Address: "unix://" + filepath.Join(b.c.dir, "docket.sock"), Producer: "engine"})
		if err != nil {
			t.Fatal(err)
		}
		b.client = c
	}
	for n := range records {
		line := fmt.Sprintf(`{"engine":%d,"n":%d,"third":%d}`, b.lives, n, n%3)
		if err := b.client.TryLogLine([]byte(line), decision.Deny); err != nil {
			t.Fatal(err)
		}
		b.due = append(b.due, line)
	}
}

// settle lets the engine send what is left, once docket runs for good, and waits for
// everything else: nobody tells when the last line of a log is stored.
func (b *bystanders) settle() {
	t := b.c.t
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), await.Left(t))
	defer cancel()
	last := `{"engine":0,"n":0,"third":1}` // the destination takes it: a refused one at the end would wait for it
	if err := b.client.TryLogLine([]byte(last), decision.Deny); err != nil {
		t.Fatal(err)
	}
	b.due = append(b.due, last)
	if left, err := b.client.Close(ctx); left > 0 || err != nil {
		t.Fatalf("engine: close: got %d records left, %v", left, err)
	}
	b.due = append(b.due, b.log.written...)
	b.log.written = nil
	eventually(t, "every line of the audits, the log and the engine in an export", b.isExported)
}

// isExported reports whether each line that is due is in the export kept.
func (b *bystanders) isExported() bool {
	exported := exportedNow(b.c.t, b.c.exports[1].dir)
	return !slices.ContainsFunc(b.due, func(line string) bool { return !exported[line] && b.seen[1][line] == 0 })
}

// line takes a line of an export, unless it is one of a producer of the crashes.
func (b *bystanders) line(export int, line string) bool {
	if strings.HasPrefix(line, `{"Producer":`) {
		return false
	}
	b.seen[export][line]++
	return true
}

// check wants each line in each export once, and of the engine's those that the
// destination rejects among the dead letters, once each, and the others there.
func (b *bystanders) check() {
	t := b.c.t
	t.Helper()
	for i, seen := range b.seen {
		for _, line := range b.due {
			if seen[line] != 1 {
				t.Errorf("%s: got %s %d times, want once", b.c.exports[i].dir, line, seen[line])
			}
			delete(seen, line)
		}
		for line := range seen {
			if !strings.HasPrefix(line, `{"eventType":"docket.`) {
				t.Errorf("%s: got %s, which nobody has sent", b.c.exports[i].dir, line)
			}
		}
	}
	store, err := deadletter.Open(filepath.Join(b.c.dir, "disk", "queue", "deadletters", "siem"), deadletter.Options{}) // docket has stopped
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	letters, err := store.Page(0, math.MaxInt)
	if err != nil {
		t.Fatal(err)
	}
	kept := map[string]int{}
	for _, l := range letters {
		l, _, err := store.Get(l.Seq)
		if err != nil {
			t.Fatal(err)
		}
		var record bytes.Buffer
		if err := json.Compact(&record, l.Record); err != nil {
			t.Fatal(err)
		}
		kept[record.String()]++
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	rejected := 0
	for _, line := range b.due {
		switch {
		case !strings.HasPrefix(line, `{"engine":`):
		case b.rejects(line):
			rejected++
			if kept[line] != 1 {
				t.Errorf("dead letters: got %s %d times, want once", line, kept[line])
			}
		case !b.took[line]:
			t.Errorf("siem: got no %s", line)
		}
	}
	if len(letters) != rejected || rejected == 0 {
		t.Errorf("got %d dead letters, want %d, and some", len(letters), rejected)
	}
	t.Logf("beside the producers: %d lines of %d audits, a log and an engine, %d of them dead letters", len(b.due), b.lives, rejected)
}
