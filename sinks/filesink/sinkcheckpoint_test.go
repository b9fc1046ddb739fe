package filesink

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/decision"
	"github.com/docket-export/docket/sinks"
	"github.com/docket-export/docket/sinks/filesink/manifest"
)

// mustAnnounce opens a sink that announces to announce.
func mustAnnounce(t *testing.T, c Config, name string, announce func(decision.Checkpoint)) *sink {
	t.Helper()
	s, err := open(c, sinks.Env{Name: name, Log: env().Log, Announce: func(record any) { announce(record.(decision.Checkpoint)) }}, nil)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() { mustClose(t, s) })
	return s
}

// endOf is what a checkpoint has to say of the manifest in dir, as far as the position
// says that it is durable.
func endOf(t *testing.T, dir string) decision.Checkpoint {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, manifest.FileName))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(text[:positionOf(t, dir).manifest]), "\n"), "\n")
	hash := func(line string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(line))) }
	c := decision.Checkpoint{EventType: decision.ExportCheckpoint, Sink: "compliance", Export: hash(lines[0]), Line: hash(lines[len(lines)-1])}
	for _, line := range lines {
		if l, err := manifest.Decode([]byte(line)); err == nil && l.Entry != nil {
			c.Queue, c.LastSeq = l.Entry.Queue, l.Entry.LastSeq
		}
	}
	return c
}

// TestCheckpoint wants each finished file to be told of, once its line is durable and
// not before, and the newest line again when the sink is opened.
func TestCheckpoint(t *testing.T) {
	dir := t.TempDir()
	c := rotating(dir, 1)
	c.Retain.MaxFiles = 2
	var told []decision.Checkpoint
	announce := func(got decision.Checkpoint) {
		want := endOf(t, dir)
		want.Time = got.Time
		if got != want || got.Time.IsZero() || got.Time.Location() != time.UTC {
			t.Errorf("got %+v, want %+v and a time", got, want)
		}
		told = append(told, got)
	}
	s := mustAnnounce(t, c, "compliance", announce)
	for seq := uint64(1); seq <= 5; seq++ {
		mustSend(t, s, batch(queueA, seq, seq)) // finishes the one before
		if len(told) != int(seq)-1 {
			t.Fatalf("%d records: told %d times, want %d", seq, len(told), seq-1)
		}
	}
	mustSend(t, s, batch(queueB, 1, 1))
	if last := told[len(told)-1]; last.LastSeq != 5 || last.Queue != queueA {
		t.Errorf("another queue: told %+v, want record 5 of the first", last)
	}
	mustClose(t, s)
	before := len(told)
	s = mustAnnounce(t, c, "compliance", announce)
	if len(told) != before+1 || told[before].Line != told[before-1].Line {
		t.Errorf("opened again: told %d times more, want once the same line", len(told)-before)
	}
	mustClose(t, s)
}

// TestCheckpointEachHour wants an export that stands still to be told of all the same,
// and none that has no line.
func TestCheckpointEachHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		began := time.Now()
		var told []string
		s := mustAnnounce(t, rotating(dir, 0), "compliance", func(c decision.Checkpoint) {
			told = append(told, fmt.Sprintf("%s %d", time.Since(began), c.LastSeq))
		})
		time.Sleep(10 * time.Hour)
		mustSend(t, s, batch(queueA, 1, 1))
		time.Sleep(3*time.Hour + time.Minute)
		synctest.Wait()
		if want := []string{"11h0m0s 1", "12h0m0s 1", "13h0m0s 1"}; !slices.Equal(told, want) {
			t.Errorf("told %q, want %q", told, want)
		}
	})
}

// loop is a docket with file sinks: what one announces is delivered to all of them.
type loop struct {
	t     *testing.T
	sinks []*sink
	last  uint64

	mu      sync.Mutex
	waiting []decision.Checkpoint
}

func (l *loop) announce(c decision.Checkpoint) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = append(l.waiting, c)
}

// deliver brings a record to all sinks.
func (l *loop) deliver(source, record string) {
	l.t.Helper()
	l.last++
	for _, s := range l.sinks {
		mustSend(l.t, s, sinks.Batch{Queue: queueA, Items: []sinks.Item{{Seq: l.last, Source: source, Received: time.Now(), Record: []byte(record)}}})
	}
}

// settle delivers what was announced until nothing more is, and returns how many records
// these were.
func (l *loop) settle(limit int) (n int) {
	l.t.Helper()
	for ; n < limit; n++ {
		synctest.Wait()
		l.mu.Lock()
		var next []decision.Checkpoint
		if len(l.waiting) > 0 {
			next, l.waiting = l.waiting[:1:1], l.waiting[1:]
		}
		l.mu.Unlock()
		if next == nil {
			return n
		}
		text, err := json.Marshal(next[0])
		if err != nil {
			l.t.Fatal(err)
		}
		l.deliver(sinks.OwnSource, string(text))
	}
	return n
}

// TestCheckpointsEnd delivers the checkpoints of two exports to both, as docket does, and
// wants them to end: an idle docket adds one an hour for each, and files only where one
// record fills a file.
func TestCheckpointsEnd(t *testing.T) {
	hours := 48
	if testing.Short() {
		hours = 6
	}
	for name, tt := range map[string]struct {
		config func(*Config)
		files  int // finished in idle hours, at most, by each
	}{
		"by age":                      {func(*Config) {}, 1},
		"a record each":               {func(c *Config) { c.Rotate.MaxBytes = 1 }, 1 + 2*hours + 4},
		"a record each, removed soon": {func(c *Config) { c.Rotate.MaxBytes, c.Retain.MaxAge = 1, config.Duration(2*time.Second) }, 4},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &loop{t: t}
				for _, sink := range []string{"compliance", "other"} {
					c := rotating(t.TempDir(), 0)
					c.Rotate.MaxAge = config.Duration(time.Hour)
					tt.config(&c)
					l.sinks = append(l.sinks, mustAnnounce(t, c, sink, l.announce))
				}
				l.deliver("webhook", `{"n":1}`)
				l.deliver("webhook", `{"n":2}`)
				records := 0
				for range hours * 6 {
					time.Sleep(10 * time.Minute)
					n := l.settle(100)
					if n > 6 {
						t.Fatalf("after %d records of its own docket made %d more at once: it does not end", records, n)
					}
					records += n
				}
				if records < 2*(hours-2) || records > 2*(hours+2)+4 {
					t.Errorf("got %d checkpoints in %d hours, want one an hour of each sink", records, hours)
				}
				for _, s := range l.sinks {
					if files := len(finishedFiles(t, s.config.Directory)); files < 1 || files > tt.files {
						t.Errorf("got %d files, want at most %d", files, tt.files)
					}
				}
			})
		})
	}
}

// A producer's record that looks like a checkpoint is a record: it ages.
func TestCheckpointOfAnotherSource(t *testing.T) {
	text, err := json.Marshal(decision.Checkpoint{EventType: decision.ExportCheckpoint})
	if err != nil {
		t.Fatal(err)
	}
	for want, items := range map[bool][]sinks.Item{
		false: {{Source: sinks.OwnSource, Record: text}},
		true:  {{Source: sinks.OwnSource, Record: text}, {Source: "webhook", Record: text}},
	} {
		if got := hasNews(items); got != want {
			t.Errorf("got %t of %d items, want %t", got, len(items), want)
		}
	}
	if !hasNews([]sinks.Item{{Source: sinks.OwnSource, Record: []byte(`{"eventType":"docket.producer.gap"}`)}}) {
		t.Error("got no news of a gap, want that it is")
	}
}
