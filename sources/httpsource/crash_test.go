package httpsource

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/decision/rawjson"
	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/sources"
	"github.com/docket-export/docket/sources/identity"
	"github.com/docket-export/docket/sources/known"
	"github.com/docket-export/docket/sources/sourcetest"
)

// TestCrashes lets the intake die again and again, at any point between the log of known
// events and the queue, while clients send until they are answered. Every event is
// stored exactly once.
func TestCrashes(t *testing.T) {
	t.Parallel()
	const clients = 3
	lives := 25 / few(3)
	dir := t.TempDir()
	random := rand.New(rand.NewPCG(7, 7))
	var stored []sourcetest.Line
	sent := map[string]bool{}
	unanswered := make([]string, clients) // the body that each client has to send again
	for life := range lives {
		in := sourcetest.New()
		in.Restore(stored)
		in.OnSettle = func([]sourcetest.Line) {
			if random.IntN(12) == 0 && life+1 < lives { // called by one at a time
				in.Crash()
			}
		}
		r := start(t, in, func(o *options) { o.dir = dir })
		var wg sync.WaitGroup
		var mu sync.Mutex
		for i := range clients {
			wg.Go(func() {
				for n := range 10 {
					body := unanswered[i]
					if body == "" {
						ids := make([]string, 1+(n+life)%4)
						mu.Lock()
						for k := range ids {
							ids[k] = fmt.Sprintf("%d-%d-%d-%d", life, i, n, k)
							sent[ids[k]] = true
						}
						mu.Unlock()
						body = eventsOf(ids...)
					}
					unanswered[i] = body
					status, _, err := r.tryPost(body)
					if err != nil || status != http.StatusOK {
						return // this life is over
					}
					unanswered[i] = ""
				}
			})
		}
		wg.Wait()
		if life+1 == lives {
			for _, body := range unanswered {
				if body != "" {
					r.mustPost(body)
				}
			}
		}
		r.end()
		in.Crash() // forgets what is not settled
		in.Close()
		stored = in.Lines()
	}
	t.Logf("%d events sent in %d lives", len(sent), lives)
	checkIDs(t, stored, slices.Collect(maps.Keys(sent))...)
}

// A crash between the sync of the log and the queue: the log has ids of events that were
// never stored.
func TestCrashBeforeAppend(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	in := sourcetest.New()
	r := start(t, in, func(o *options) { o.dir = dir })
	r.source.server.Load().stopWait = time.Second / 10
	r.mustPost(eventsOf("a"))
	in.Hold()
	answered := make(chan int, 1)
	go func() {
		status, _, _ := r.tryPost(eventsOf("b", "c"))
		answered <- status
	}()
	await.Until(t, "the events are under way", func() bool { return in.Pending() == 2 })
	image := snapshot(t, dir)
	in.Crash()
	r.end()
	if status := <-answered; status == http.StatusOK {
		t.Error("got the answer 200 for what was never stored")
	}

	for name, tt := range map[string]struct {
		log  []byte // nil: lost
		want []string
	}{
		"the log as it was": {image, []string{"a", "b", "c"}},
		"the log is lost":   {nil, []string{"a", "a", "b", "c"}}, // twice, but not lost
		"the log is zeros":  {make([]byte, len(image)), []string{"a", "a", "b", "c"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if tt.log != nil {
				if err := os.WriteFile(filepath.Join(dir, "known"), tt.log, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			again := sourcetest.New()
			defer again.Close()
			again.Restore(in.Lines())
			r := start(t, again, func(o *options) { o.dir = dir })
			r.mustPost(eventsOf("b", "c"))
			r.mustPost(eventsOf("b", "c", "a"))
			checkIDs(t, again.Lines(), tt.want...)
		})
	}
}

// A crash between the queue and the answer, and a queue that has forgotten the producer.
func TestCrashBeforeAnswer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	in := sourcetest.New()
	r := start(t, in, func(o *options) { o.dir = dir })
	r.mustPost(eventsOf("a", "b"))
	await.Until(t, "the log says that it is stored", func() bool { return len(snapshot(t, dir)) > 0 && settledIn(t, dir) == 2 })
	image := snapshot(t, dir)
	in.Crash()
	r.end()
	for name, restore := range map[string]bool{"the position is known": true, "the position was forgotten": false} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "known"), image, 0o600); err != nil {
				t.Fatal(err)
			}
			again := sourcetest.New()
			defer again.Close()
			want := []string{"c"}
			if restore {
				again.Restore(in.Lines())
				want = []string{"a", "b", "c"}
			}
			r := start(t, again, func(o *options) { o.dir = dir })
			r.mustPost(eventsOf("b", "a"))
			r.mustPost(eventsOf("a", "c"))
			checkIDs(t, again.Lines(), want...)
			if again.Known() != 3 {
				t.Errorf("got %d duplicates, want 3", again.Known())
			}
		})
	}
}

// The log of known events cannot be written: nothing is stored whose repetition would not
// be recognised, /status says so, and all is well once it can be.
func TestLogFails(t *testing.T) {
	t.Parallel()
	in := sourcetest.New()
	defer in.Close()
	dir := t.TempDir()
	c, source := openCommitter(t, in, dir)
	commit := func(body string) outcome {
		b := batchOf(t, body)
		if err := c.commit(t.Context(), []*batch{b}); err != nil {
			t.Fatal(err)
		}
		return <-b.done
	}
	commit(eventsOf("a"))
	c.known.Close() // so that it takes a new file, which cannot be made
	obstacle := filepath.Join(dir, "known.new")
	if err := os.Mkdir(obstacle, 0o700); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if o := commit(eventsOf("b", "a")); !errors.Is(o.err, errNotKnown) {
			t.Fatalf("got %v, want %v", o.err, errNotKnown)
		}
	}
	if trouble := source.Report().Trouble; !strings.Contains(trouble, "known.new") {
		t.Errorf("got the trouble %q, want one that names the file", trouble)
	}
	if err := os.Remove(obstacle); err != nil {
		t.Fatal(err)
	}
	if o := commit(eventsOf("b", "a")); o.err != nil {
		t.Fatal(o.err)
	}
	if trouble := source.Report().Trouble; trouble != "" {
		t.Errorf("got the trouble %q of a source that is well", trouble)
	}
	if err := c.session.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	checkIDs(t, in.Lines(), "a", "b")
}

// openCommitter opens the committer of a source that does not run.
func openCommitter(t *testing.T, in sources.Intake, dir string) (*committer, *Source) {
	t.Helper()
	env := sources.Env{Name: "test", MaxRecordBytes: testLimit, StateDir: disk.At(dir), Log: slog.New(slog.DiscardHandler)}
	source := New(Config{}, testProtocol, env)
	c := &committer{in: in, env: env, evict: func(error) {}, knownErr: source.failures.known}
	if err := c.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c, source
}

// batchOf cuts a body that fits into one batch.
func batchOf(t *testing.T, body string) *batch {
	t.Helper()
	b := new(batch)
	b.reset(identity.Anyone)
	cut := newCutter(strings.NewReader(body), "", testLimit, make([]byte, 64))
	var err error
	for err == nil {
		_, err = b.addNext(cut, &testProtocol)
	}
	if !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	return b
}

func snapshot(t *testing.T, dir string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "known"))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// settledIn is the number up to which the log in dir says that everything is durable.
func settledIn(t *testing.T, dir string) uint64 {
	t.Helper()
	copied := t.TempDir()
	if err := os.WriteFile(filepath.Join(copied, "known"), snapshot(t, dir), 0o600); err != nil {
		t.Fatal(err)
	}
	l, _, err := known.Open(disk.At(copied))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	next, err := l.Restore(0)
	if err != nil {
		t.Fatal(err)
	}
	return next - 1
}

// watchful is an intake that looks, before it takes lines, whether each is written down.
type watchful struct {
	*sourcetest.Intake
	look func(lines []byte)
}

func (w *watchful) Open(ctx context.Context, o sources.Opening) (sources.Session, uint64, error) {
	s, acked, err := w.Intake.Open(ctx, o)
	return watchfulSession{s, w}, acked, err
}

type watchfulSession struct {
	sources.Session
	w *watchful
}

func (s watchfulSession) Submit(ctx context.Context, lines []byte) error {
	s.w.look(lines)
	return s.Session.Submit(ctx, lines)
}

// What is submitted is in the log of known events already.
func TestWrittenDownFirst(t *testing.T) {
	t.Parallel()
	in := sourcetest.New()
	defer in.Close()
	dir := t.TempDir()
	looked := 0
	w := &watchful{in, func(lines []byte) {
		logged := snapshot(t, dir)
		for line := range bytes.Lines(lines) {
			looked++
			id := known.Of(rawjson.Member(line, "id").Text())
			if !bytes.Contains(logged, id[:]) {
				t.Errorf("got %q submitted and not written down", line)
			}
		}
	}}
	r := start(t, w, func(o *options) { o.dir = dir })
	r.mustPost(eventsOf("a", "b"))
	r.mustPost(eventsOf("b", "c"))
	if looked != 3 {
		t.Errorf("got %d lines submitted, want 3", looked)
	}
}
