package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/docket-export/docket/cli/internal/command"
	"github.com/docket-export/docket/decision/once"
	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/internal/fakekafka"
	"github.com/docket-export/docket/internal/testcli"
)

// index is what Elasticsearch has of a bulk sink: a document keeps its _id, and a second one with
// it is answered 409.
type index struct {
	*httptest.Server
	mu   sync.Mutex
	docs map[string]json.RawMessage // guarded by mu
}

func newIndex(t *testing.T) *index {
	x := &index{docs: map[string]json.RawMessage{}}
	x.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the sender was killed
		}
		x.mu.Lock()
		defer x.mu.Unlock()
		var items []string
		lines := bytes.Split(bytes.TrimSpace(body), []byte("\n"))
		for i := 0; i+1 < len(lines); i += 2 {
			var action struct {
				Create struct {
					ID string `json:"_id"`
				} `json:"create"`
			}
			if err := json.Unmarshal(lines[i], &action); err != nil || action.Create.ID == "" {
				t.Errorf("got the action %s, %v", lines[i], err)
			}
			status := http.StatusCreated
			if _, ok := x.docs[action.Create.ID]; ok {
				status = http.StatusConflict
			} else {
				x.docs[action.Create.ID] = slices.Clone(lines[i+1])
			}
			items = append(items, fmt.Sprintf(`{"create":{"_id":%q,"status":%d}}`, action.Create.ID, status))
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"took":1,"errors":false,"items":[%s]}`, strings.Join(items, ","))
	}))
	t.Cleanup(x.Close)
	return x
}

func (x *index) lines() (lines []string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, doc := range x.docs {
		lines = append(lines, string(doc))
	}
	return lines
}

// consumed are the committed records of a topic; with filter those that a consumer with package
// once takes.
func consumed(t *testing.T, c *fakekafka.Cluster, topic string, filter bool) (lines []string) {
	t.Helper()
	records, err := c.Committed(topic, 0)
	if err != nil {
		t.Fatal(err)
	}
	var f once.Filter
	for _, r := range records {
		d, err := once.ParseHeaders(slices.Collect(maps.Keys(r.Headers)), func(key string) (string, []byte) { return key, []byte(r.Headers[key]) })
		if err != nil {
			t.Fatal(err)
		}
		if !filter || f.Take(d) {
			lines = append(lines, string(r.Value))
		}
	}
	return lines
}

// docketOf is a docket with sinks of all kinds that know records again. Its directories are dir's.
type docketOf struct {
	t          *testing.T
	dir, admin string
	p          *process
}

// everyDestination are destinations that dockets share.
type everyDestination struct {
	index *index
	kafka *fakekafka.Cluster
}

func (d *everyDestination) sidecar(t *testing.T, dir string) *docketOf {
	t.Helper()
	admin, err := testcli.FreeAddress()
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "docket.yaml"), strings.NewReplacer("DIR", dir, "ADMIN", admin, "INDEX", d.index.URL, "KAFKA", d.kafka.ListenAddrs()[0]).Replace(`apiVersion: docket.dev/v1alpha1
kind: Exporter
sources:
- {name: local, unix: {path: DIR/docket.sock}}
queue: {directory: DIR/queue, retain: {maxAge: 1h}}
sinks:
- {name: index, http: {url: "INDEX/decisions/_bulk", encoding: elasticsearchBulk}}
- {name: export, file: {directory: DIR/export}}
- {name: bus, kafka: {brokers: ["KAFKA"], topic: atleastonce}}
- {name: ledger, kafka: {brokers: ["KAFKA"], topic: exactlyonce, delivery: ExactlyOnce}}
admin: {address: "ADMIN"}
`))
	return &docketOf{t: t, dir: dir, admin: admin}
}

func (s *docketOf) at(name string) string { return filepath.Join(s.dir, name) }

func (s *docketOf) start() {
	s.t.Helper()
	s.p = newProcessIn(s.t, s.dir, "run", "-f", s.at("docket.yaml"))
	s.p.start()
	if err := waitReady(s.t, s.admin); err != nil {
		s.t.Fatalf("%v\n%s", err, s.p.stderr())
	}
}

// store has lines acknowledged.
func (s *docketOf) store(lines []string) {
	s.t.Helper()
	writeFile(s.t, s.at("lines"), strings.Join(lines, "\n")+"\n")
	p := newProcessIn(s.t, s.dir, "send", "-f", s.at("docket.yaml"), s.at("lines"))
	p.start()
	if code := p.wait(); code != command.ExitOK {
		s.t.Fatalf("got exit code %d of the sender, want %d", code, command.ExitOK)
	}
}

// drained waits until these sinks have everything, by what they say.
func (s *docketOf) drained(sinks ...string) {
	s.t.Helper()
	eventually(s.t, fmt.Sprint(sinks, " have all records"), func() bool {
		for _, sink := range statusOf(s.t, s.admin).Sinks {
			if slices.Contains(sinks, sink.Name) && (sink.Pending > 0 || sink.State != exporter.Active) {
				return false
			}
		}
		return true
	})
}

func (s *docketOf) stop() {
	s.t.Helper()
	s.p.interrupt()
	if code := s.p.wait(); code != command.ExitOK {
		s.t.Fatalf("got exit code %d:\n%s", code, s.p.stderr())
	}
}

// put has what lies at from in the place of to.
func put(t *testing.T, from, to string) {
	t.Helper()
	err := errors.Join(os.RemoveAll(to), filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		target := filepath.Join(to, strings.TrimPrefix(path, from))
		switch {
		case err == nil && d.IsDir():
			return os.MkdirAll(target, 0o700)
		case err != nil || !d.Type().IsRegular(): // a socket
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(target, content, 0o600)
	}))
	if err != nil {
		t.Fatal(err)
	}
}

func numberedLines(from, to int) (lines []string) {
	for n := from; n <= to; n++ {
		lines = append(lines, fmt.Sprintf(`{"n":%d}`, n))
	}
	return lines
}

var allSinks = []string{"index", "export", "bus", "ledger"}

// copiedAndGoneOn stops the docket after 12 records. A copy of its queue has the first 5.
func (s *docketOf) copiedAndGoneOn() {
	s.t.Helper()
	s.start()
	s.store(numberedLines(1, 5))
	s.drained(allSinks...)
	s.stop()
	put(s.t, s.at("queue"), s.at("copy"))
	s.start()
	s.store(numberedLines(6, 12))
	s.drained(allSinks...)
	s.stop()
}

// endIsLost is the story of a queue that has lost its last segment, and whose other files, of which the disk
// has lied too, are as they were before.
func endIsLost(older ...string) func(t *testing.T, d *everyDestination, s *docketOf) []*docketOf {
	return func(t *testing.T, _ *everyDestination, s *docketOf) []*docketOf {
		s.copiedAndGoneOn()
		segments, err := filepath.Glob(s.at("queue/*.segment"))
		if err != nil || len(segments) < 2 {
			t.Fatalf("got the segments %v, %v", segments, err)
		}
		slices.Sort(segments)
		if err := os.Remove(segments[len(segments)-1]); err != nil {
			t.Fatal(err)
		}
		for _, file := range older {
			writeFile(t, s.at("queue/"+file), readFile(t, s.at("copy/"+file)))
		}
		s.start()
		return nil
	}
}

// A queue that was set back, or is there twice, gives no id a second time: what it has acknowledged
// arrives at every kind of destination, once.
func TestAcknowledgedArrivesAfterASetback(t *testing.T) {
	for name, story := range map[string]func(t *testing.T, d *everyDestination, s *docketOf) (others []*docketOf){
		"a restored copy": func(t *testing.T, _ *everyDestination, s *docketOf) []*docketOf {
			s.copiedAndGoneOn()
			put(t, s.at("copy"), s.at("queue"))
			s.start()
			return nil
		},
		"a snapshot and several starts since": func(t *testing.T, _ *everyDestination, s *docketOf) []*docketOf {
			s.start()
			s.store(numberedLines(1, 5))
			s.drained(allSinks...)
			put(t, s.at("queue"), s.at("copy")) // as it is under way
			for n := range 3 {
				s.store(numberedLines(6+2*n, 7+2*n))
				s.drained(allSinks...)
				s.p.kill()
				s.start()
			}
			s.store(numberedLines(12, 12))
			s.drained(allSinks...)
			s.p.kill()
			put(t, s.at("copy"), s.at("queue"))
			s.start()
			return nil
		},
		"the end of the log is lost":              endIsLost("cursors", "positions"),
		"the cursors know of an end that is lost": endIsLost("positions"),
		"the last segment is removed":             endIsLost(),
		"a copy beside the original": func(t *testing.T, d *everyDestination, s *docketOf) []*docketOf {
			s.start()
			s.store(numberedLines(1, 5))
			s.drained(allSinks...)
			s.stop()
			other := d.sidecar(t, s.dir+"-copy")
			put(t, s.at("queue"), other.at("queue"))
			put(t, s.at("export"), other.at("export"))
			other.start()
			s.start() // and takes over the transactions
			other.store(numberedLines(6, 12))
			other.drained("index", "export", "bus")
			s.store(numberedLines(13, 15))
			s.drained(allSinks...)
			other.stop()
			s.stop()
			other.start() // and takes them back
			other.drained(allSinks...)
			other.stop()
			s.start()
			return []*docketOf{other}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := &everyDestination{newIndex(t), fakekafka.Start(t, 1, 1, "atleastonce", "exactlyonce")}
			s := d.sidecar(t, filepath.Join(t.TempDir(), "docket"))
			exports := []string{s.at("export")}
			want := numberedLines(1, 12)
			others := story(t, d, s)
			if len(others) > 0 {
				want = numberedLines(1, 15)
			}
			s.store(numberedLines(101, 105))
			s.drained(allSinks...)
			s.stop()
			want = append(want, numberedLines(101, 105)...)
			for _, other := range others {
				exports = append(exports, other.at("export"))
			}
			exported := map[string]bool{}
			for _, dir := range exports {
				lines := ours(exportedLines(t, dir))
				if once := slices.Compact(slices.Sorted(slices.Values(lines))); len(once) != len(lines) {
					t.Errorf("%s has lines twice: %v", dir, lines)
				}
				for _, line := range lines {
					exported[line] = true
				}
				if code, out := verified(t, dir); code == 1 {
					t.Errorf("verify finds %s broken: %s", dir, out)
				}
			}
			slices.Sort(want)
			for what, got := range map[string][]string{
				"the index": d.index.lines(), "the exports": slices.Collect(maps.Keys(exported)),
				"a consumer of at least once": consumed(t, d.kafka, "atleastonce", true), "exactly once": consumed(t, d.kafka, "exactlyonce", false),
			} {
				if got = ours(got); !slices.Equal(slices.Sorted(slices.Values(got)), want) {
					t.Errorf("%s has %v, want %v", what, slices.Sorted(slices.Values(got)), want)
				}
			}
		})
	}
}

// ours are lines without docket's own records.
func ours(lines []string) []string {
	return slices.DeleteFunc(lines, func(line string) bool { return !strings.HasPrefix(line, `{"n":`) })
}

// verified is what docket verify says of an export.
func verified(t *testing.T, dir string) (code int, out string) {
	t.Helper()
	p := newProcessIn(t, filepath.Dir(dir), "verify", dir)
	p.start()
	code = p.wait()
	return code, p.stderr()
}
