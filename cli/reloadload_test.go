package cli

import (
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/internal/testcli"
)

var reloads = flag.Int("reloads", 20, "how often TestReloads reloads docket")

// TestReloads reloads docket at random while five producers send: sources, sinks, filters and
// bounds of the queue come, change and go, and some files are broken. Now and then docket is
// killed. Nothing is lost, every ledger balances, and no producer of the source that stays
// as it is loses its connection.
func TestReloads(t *testing.T) {
	t.Parallel()
	r := newRandomReloads(t)
	total := onceIfShort(*reloads)
	killed := 0
	for done := 0; done < total; {
		docket := startDocket(t, r.dir)
		if err := waitReady(t, r.admin); err != nil {
			t.Fatal(err)
		}
		r.begin()
		for n := 1 + r.dice.IntN(20); n > 0 && done < total; n-- {
			r.reload(docket)
			done++
			r.progress(done, total)
		}
		if r.dice.IntN(2) == 0 {
			r.write(r.config()) // docket is killed while it looks at it
			r.pause(calmOnce)
		}
		kill(t, docket)
		killed++
		r.checkProducers()
		r.checkExports()
	}
	r.write(r.last())
	r.finish(total)
	t.Logf("%d reloads, of which %d of broken files; killed %d times; %d dials by %d producers in %d lives",
		total, r.broken, killed, r.dials(r.producers), len(r.producers), killed+1)
}

const calmOnce = 400 * time.Millisecond // somewhat longer than docket waits for a file to stay as it is

// randomReloads is a docket whose configuration changes at random.
type randomReloads struct {
	*crashes
	tcp    string // address of a source
	siem   string // URL of a sink
	n      int    // of the configuration
	moves  [3]int // how often each sink that comes and goes has had another destination than files
	broken int
	// These are as of the last start.
	generation int
	connected  int64 // dials of the producers whose source never changes
}

func newRandomReloads(t *testing.T) *randomReloads {
	t.Helper()
	tcp, err := testcli.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	requests := 0
	siem := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if requests++; requests%3 == 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(siem.Close)
	dir := t.TempDir()
	r := &randomReloads{tcp: tcp, siem: siem.URL}
	r.crashes = newCrashes(t, "reload", dir, "", filepath.Join(dir, "export"), filepath.Join(dir, "changing"))
	changing := newKillProducer(t, filepath.Join(dir, "changing.sock"), len(r.producers))
	r.producers = append(r.producers, changing)
	r.sending.Go(func() { changing.run(r.ctx) })
	r.write(r.last())
	return r
}

// steady are the producers whose source never changes.
func (r *randomReloads) steady() []*killProducer { return r.producers[:4] }

func (r *randomReloads) dials(producers []*killProducer) (n int64) {
	for _, p := range producers {
		n += p.dials.Load()
	}
	return n
}

// begin looks at a docket that has just started, once all producers that can are connected for
// good: one that hears that more of its lines are known than it has acks for connects once more.
func (r *randomReloads) begin() {
	r.t.Helper()
	s := waitStatus(r.t, r.admin, func(s exporter.Status) bool {
		return s.Sources[0].Name == "local" && s.Sources[0].Connections == len(r.steady())
	})
	for _, p := range r.steady() {
		sent := p.sender.Stats().Sent // what is sent later only this docket can have acknowledged
		eventually(r.t, "acks of this docket", func() bool { return p.sender.Stats().Handled > sent })
	}
	r.generation, r.connected = s.Config.Generation, r.dials(r.steady())
}

// reload has another file take effect, or none.
func (r *randomReloads) reload(docket *exec.Cmd) {
	t := r.t
	t.Helper()
	if r.dice.IntN(6) == 0 {
		r.broken++
		mark := fmt.Sprintf("unknown%d", r.n)
		r.write(r.config() + mark + ": 1\n")
		r.balanced(func(s exporter.Status) bool {
			return s.Config.State == exporter.Error && strings.Contains(s.Config.LastError, mark)
		})
		return
	}
	text := r.config()
	switch r.dice.IntN(4) {
	case 0: // by an editor, in pieces
		r.write(text[:len(text)/2])
		r.write(text)
	case 1: // at once, as by mv
		next := filepath.Join(r.dir, "docket.yaml.next")
		writeFile(t, next, text)
		if err := os.Rename(next, filepath.Join(r.dir, "docket.yaml")); err != nil {
			t.Fatal(err)
		}
	case 2:
		r.write(text)
		if err := docket.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	default:
		r.write(text)
	}
	s := r.balanced(func(s exporter.Status) bool { return s.Config.Generation > r.generation })
	if s.Config.State == exporter.Error {
		t.Fatalf("got %+v, want a configuration in force:\n%s", s.Config, text)
	}
	r.generation = s.Config.Generation
	if got := r.dials(r.steady()); got != r.connected {
		t.Fatalf("producers of a source that has not changed have connected %d times more", got-r.connected)
	}
	for _, sink := range s.Sinks {
		if !strings.Contains(text, "- name: "+sink.Name+"\n") && sink.Reason != "Retired" {
			t.Errorf("sink %s is not configured: got %+v, want it Retired", sink.Name, sink)
		}
	}
}

// balanced waits for a status, and looks at the ledger of each.
func (r *randomReloads) balanced(ok func(exporter.Status) bool) exporter.Status {
	r.t.Helper()
	return waitStatus(r.t, r.admin, func(s exporter.Status) bool {
		l := s.Ledger
		if l.Received != l.Stored+l.Duplicate || l.Corrupt != 0 {
			r.t.Fatalf("ledger does not balance: %+v", l)
		}
		for name, sink := range l.Sinks {
			if sum := sink.Delivered + sink.Filtered + sink.DeadLettered + sink.Dropped + sink.Corrupt + sink.Pending; sum != l.Stored || sink.Dropped > 0 {
				r.t.Fatalf("ledger of sink %s does not balance: %+v of %d stored", name, sink, l.Stored)
			}
		}
		return ok(s)
	})
}

func (r *randomReloads) write(text string) {
	r.t.Helper()
	writeFile(r.t, filepath.Join(r.dir, "docket.yaml"), text)
}

// last has what the producers and the exports need, and nothing else. It gives up what sinks
// lack that came and went: one that was removed keeps its records when docket is killed before
// it has received them.
func (r *randomReloads) last() string {
	sinks := []string{"changing\n  file: {directory: DIR/changing}"}
	for i := range r.moves {
		sinks = append(sinks, fmt.Sprintf("x%d\n  retire: true\n  file: {directory: DIR/x%d-%d}", i, i, r.moves[i]))
	}
	return r.render("64Mi", []string{"unix: {path: DIR/changing.sock}"}, sinks)
}

// config is a random configuration, another one each time.
func (r *randomReloads) config() string {
	pick := func(list ...string) string { return list[r.dice.IntN(len(list))] }
	var sources []string
	if r.dice.IntN(4) > 0 {
		sources = append(sources, pick(
			"unix: {path: DIR/changing.sock}",
			"unix: {path: DIR/changing.sock, maxConnections: 7}",
			"unix: {path: DIR/changing.sock, mode: \"0600\"}",
			"unix: {path: DIR/changing.sock}\n  redact: [{pointer: /absent, action: Remove}]"))
	}
	sinks := []string{"changing\n  batch: {maxRecords: " + pick("100", "500", "4096") + ", maxWait: " + pick("0s", "5ms") + "}" +
		"\n  file: {directory: DIR/changing, rotate: {maxBytes: " + pick("128Ki", "256Ki", "1Mi") + "}}"}
	for i := range r.moves {
		name := fmt.Sprintf("x%d", i)
		// Files that lack what went elsewhere meanwhile are an older copy: the sink gets a new directory.
		file := fmt.Sprintf("file: {directory: DIR/%s-%d", name, r.moves[i])
		switch r.dice.IntN(8) {
		case 0:
			sinks = append(sinks, name+"\n  retire: true\n  "+file+"}")
		case 1, 2:
			sinks = append(sinks, name+"\n  when: "+pick("record.n % 2 == 0", "record.n % 3 == 0")+"\n  "+file+"}")
		case 3:
			sinks = append(sinks, name+"\n  from: Now\n  "+file+", compress: zstd}")
		case 4:
			r.moves[i]++
			sinks = append(sinks, name+"\n  retry: {initialBackoff: 5ms, maxBackoff: 20ms}\n  http: {url: "+r.siem+"/"+name+"}")
		}
	}
	return r.render(pick("64Mi", "128Mi", "64Mi, retain: {maxBytes: 16Mi}", "64Mi, minFreeBytes: 1Mi"), sources, sinks) +
		pick("", "limits: {producers: 100}\n", "shutdown: {drainTimeout: 3s}\n")
}

func (r *randomReloads) render(queue string, sources, sinks []string) string {
	r.n++
	text := fmt.Sprintf("# %d\napiVersion: docket.dev/v1alpha1\nkind: Exporter\nqueue: {directory: DIR/queue, maxBytes: %s}\n", r.n, queue) +
		"admin: {address: \"ADMIN\"}\nsources:\n- name: local\n  unix: {path: DIR/docket.sock}\n"
	for _, s := range sources {
		text += "- name: changing\n  " + s + "\n"
	}
	text += "sinks:\n- name: export\n  batch: {maxWait: 5ms}\n  file: {directory: DIR/export, rotate: {maxBytes: 256Ki}}\n"
	for _, s := range sinks {
		text += "- name: " + s + "\n"
	}
	return strings.NewReplacer("ADMIN", r.admin, "DIR", r.dir).Replace(text)
}
