package cli

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/docket-export/docket/cli/internal/command"
	"github.com/docket-export/docket/exporter"
)

// collector is where the http sink of a rescued queue leads. It rejects lines with "poison".
type collector struct {
	*httptest.Server
	down atomic.Bool
	cure atomic.Bool // it takes lines with "poison", too

	mu   sync.Mutex
	got  map[string]int // by line; guarded by mu
	news chan struct{}  // has a word when there is more
}

func newCollector(t *testing.T) *collector {
	c := &collector{got: map[string]int{}, news: make(chan struct{}, 1)}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		switch {
		case err != nil: // the sender was killed
		case c.down.Load():
			w.WriteHeader(http.StatusServiceUnavailable)
		case bytes.Contains(body, []byte("poison")) && !c.cure.Load():
			w.WriteHeader(http.StatusBadRequest)
		default:
			c.take(string(body))
		}
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *collector) take(body string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for line := range strings.Lines(body) {
		c.got[strings.TrimSpace(line)]++
	}
	select {
	case c.news <- struct{}{}:
	default:
	}
}

func (c *collector) has(line string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.got[line] > 0
}

func (c *collector) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.got)
}

// TestOnceSurvivesKillsAndOutages: docket run --once is killed at random moments, and meets
// an outage. The http sink then has all that was acknowledged, the file export each line
// once, and what the sink rejects is named for as long as it is kept.
func TestOnceSurvivesKillsAndOutages(t *testing.T) {
	const records = 2000
	kills := onceIfShort(8)
	siem := newCollector(t)
	siem.down.Store(true)
	config, admin := testConfig(t)
	writeFile(t, config, strings.NewReplacer("sinks:\n", `sinks:
- name: siem
  batch: {maxRecords: 10}
  retry: {initialBackoff: 10ms, maxBackoff: 10ms}
  http: {url: `+siem.URL+`}
`, "1h", "10ms").Replace(readFile(t, config)))
	var lines []string
	for n := range records {
		lines = append(lines, fmt.Sprintf(`{"n":%d}`, n))
	}
	writeFile(t, "lines.ndjson", strings.Join(lines, "\n")+"\n")
	sidecar := startProcess(t, "run", "-f", config)
	if got := startProcess(t, "send", "-f", config, "lines.ndjson").wait(); got != command.ExitOK {
		t.Fatalf("got exit code %d of the sender, want %d", got, command.ExitOK)
	}
	sidecar.kill()

	away := startProcess(t, "run", "--once", "-f", config)
	waitStatus(t, admin, func(s exporter.Status) bool {
		return s.Ledger.Sinks["export"].Pending == 0 && slices.ContainsFunc(s.Sinks, func(s exporter.SinkStatus) bool { return s.Name == "siem" && s.Attempts > 1 })
	})
	if err := away.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	// The file sink has docket make a record, which counts too.
	if got, want := away.wait(), regexp.MustCompile(`not delivered, by sink: siem 200\d `); got != command.ExitFailed || !want.MatchString(away.stderr()) {
		t.Errorf("got exit code %d and\n%s\nwant %d and %s", got, away.stderr(), command.ExitFailed, want)
	}

	siem.down.Store(false)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	dice := rand.New(rand.NewPCG(seed, 0))
	for range kills {
		p := startProcess(t, "run", "--once", "-f", config)
		enough := min(siem.count()+dice.IntN(records/kills), records)
		for siem.count() < enough {
			<-siem.news
		}
		p.kill()
	}
	if n := siem.count(); n == records {
		t.Logf("all %d records had arrived before the last kill", n)
	}
	last := startProcess(t, "run", "--once", "-f", config)
	if got := last.wait(); got != command.ExitOK {
		t.Errorf("got exit code %d, want %d:\n%s", got, command.ExitOK, last.stderr())
	}
	for _, line := range lines {
		if !siem.has(line) {
			t.Fatalf("the sink has no %s: %d of %d records arrived", line, siem.count(), records)
		}
	}
	compareLines(t, "export", exportedLines(t, "export"), lines)

	sidecar = startProcess(t, "run", "-f", config)
	writeFile(t, "poison.ndjson", `{"poison":true}`+"\n"+`{"n":"behind it"}`+"\n")
	if got := startProcess(t, "send", "-f", config, "poison.ndjson").wait(); got != command.ExitOK {
		t.Fatalf("got exit code %d of the sender, want %d", got, command.ExitOK)
	}
	sidecar.kill()
	for range 2 {
		p := startProcess(t, "run", "--once", "-f", config)
		if got, want := p.wait(), "dead letters, by sink: siem 1 (start docket run, then see docket deadletter ls)"; got != command.ExitFailed || !strings.Contains(p.stderr(), want) {
			t.Errorf("got exit code %d and\n%s\nwant %d and %q", got, p.stderr(), command.ExitFailed, want)
		}
	}
}

// TestOnceTellsOfDamage: records that damage on disk has cost are named, in the next try as
// well: who removes the volume removes what quarantine has of them.
func TestOnceTellsOfDamage(t *testing.T) {
	siem := newCollector(t)
	siem.down.Store(true)
	config, _ := testConfig(t)
	text, _, _ := strings.Cut(readFile(t, config), "sinks:\n")
	writeFile(t, config, text+"sinks:\n- name: siem\n  http: {url: "+siem.URL+"}\nadmin: {address: \"\"}\n")
	writeFile(t, "lines.ndjson", strings.Repeat(`{"decision":"deny"}`+"\n", 2000))
	sidecar := startProcess(t, "run", "-f", config)
	for range 2 { // the end of a file may be that of a write nobody was told about
		if got := startProcess(t, "send", "-f", config, "lines.ndjson").wait(); got != command.ExitOK {
			t.Fatalf("got exit code %d of the sender, want %d", got, command.ExitOK)
		}
	}
	sidecar.kill()
	segment := "queue/00000000000000000001-0000000001.segment"
	stored := []byte(readFile(t, segment))
	stored[bytes.LastIndex(stored, []byte("deny"))/4] ^= 0xff
	writeFile(t, segment, string(stored))

	siem.down.Store(false)
	for range 2 {
		p := startProcess(t, "run", "--once", "-f", config)
		if got, want := p.wait(), regexp.MustCompile(`keep its volume: lost to damage on disk, by sink: siem \d+ `); got != command.ExitFailed || !want.MatchString(p.stderr()) {
			t.Errorf("got exit code %d and\n%s\nwant %d and %s", got, p.stderr(), command.ExitFailed, want)
		}
	}
}

// TestOnceTellsOfDrops: records that a sink has rejected and docket has dropped are not left,
// and the sink does not have them.
func TestOnceTellsOfDrops(t *testing.T) {
	siem := newCollector(t)
	siem.down.Store(true)
	config, _ := testConfig(t)
	text, _, _ := strings.Cut(readFile(t, config), "sinks:\n")
	writeFile(t, config, text+"sinks:\n- name: siem\n  onReject: Drop\n  http: {url: "+siem.URL+"}\nadmin: {address: \"\"}\n")
	writeFile(t, "poison.ndjson", strings.Repeat(`{"poison":true}`+"\n", 3)+`{"n":"behind them"}`+"\n")
	sidecar := startProcess(t, "run", "-f", config)
	if got := startProcess(t, "send", "-f", config, "poison.ndjson").wait(); got != command.ExitOK {
		t.Fatalf("got exit code %d of the sender, want %d", got, command.ExitOK)
	}
	sidecar.kill()
	siem.down.Store(false)
	p := startProcess(t, "run", "--once", "-f", config)
	if got, want := p.wait(), `"sink":"siem","delivered":1,"left":0,"dropped":3}`; got != command.ExitOK || !strings.Contains(p.stderr(), want) {
		t.Errorf("got exit code %d and\n%s\nwant %d and %s", got, p.stderr(), command.ExitOK, want)
	}
}

// TestOnceEndsWhereAllThatIsLeftIsRefused: nobody can tell whether the records are at fault or the
// destination, so they stay, and the last line says what to do. Both ways out work.
func TestOnceEndsWhereAllThatIsLeftIsRefused(t *testing.T) {
	for _, policy := range []exporter.OnReject{exporter.DeadLetter, exporter.DropRejected} {
		t.Run(string(policy), func(t *testing.T) {
			siem := newCollector(t)
			siem.down.Store(true)
			config, _ := testConfig(t)
			text, _, _ := strings.Cut(readFile(t, config), "sinks:\n")
			writeFile(t, config, text+"sinks:\n- name: siem\n  onReject: "+string(policy)+"\n  http: {url: "+siem.URL+"}\nadmin: {address: \"\"}\n")
			send := func(lines string) {
				writeFile(t, "lines.ndjson", lines)
				sidecar := startProcess(t, "run", "-f", config)
				if got := startProcess(t, "send", "-f", config, "lines.ndjson").wait(); got != command.ExitOK {
					t.Fatalf("got exit code %d of the sender, want %d", got, command.ExitOK)
				}
				sidecar.kill()
			}
			once := func(exit int, wants ...string) {
				t.Helper()
				p := startProcess(t, "run", "--once", "-f", config)
				got := p.wait()
				for _, want := range wants {
					if !strings.Contains(p.stderr(), want) {
						t.Errorf("got\n%s\nwant %q", p.stderr(), want)
					}
				}
				if got != exit {
					t.Errorf("got exit code %d, want %d:\n%s", got, exit, p.stderr())
				}
			}
			send(strings.Repeat(`{"poison":true}`+"\n", 40))
			siem.down.Store(false)
			for range 2 {
				once(command.ExitFailed, "keep its volume: sink siem refuses all that is left for it, 40 records: ", "answered 400", "run docket again", `"delivered":0,"left":40}`)
			}

			siem.down.Store(true)
			send("{\"n\":1}\n")
			siem.down.Store(false)
			if policy == exporter.DropRejected {
				once(command.ExitOK, `"delivered":1,"left":0,"dropped":40}`)
			} else {
				once(command.ExitFailed, "dead letters, by sink: siem 40 ")
			}

			siem.down.Store(true)
			send(strings.Repeat(`{"poison":true}`+"\n", 3))
			siem.down.Store(false)
			once(command.ExitFailed, "sink siem refuses all that is left for it, 3 records: ")
			siem.cure.Store(true)
			exit := command.ExitOK
			if policy == exporter.DeadLetter {
				exit = command.ExitFailed // its dead letters are left
			}
			once(exit, `"left":0`)
		})
	}
}
