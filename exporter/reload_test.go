package exporter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/sinks"
	"github.com/docket-export/docket/sources"
)

// destination is where sinks of one name deliver to, whatever their configuration.
type destination struct {
	mu     sync.Mutex
	open   int                                      // sinks; guarded by mu
	opened []string                                 // labels, in the order of Open; guarded by mu
	got    []string                                 // records; guarded by mu
	send   func(context.Context, sinks.Batch) error // nil: takes everything; guarded by mu
}

func (d *destination) answer(send func(context.Context, sinks.Batch) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.send = send
}

func (d *destination) records() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.got)
}

func (d *destination) labels() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.opened)
}

type destinationConfig struct {
	sinks.Config
	Label string `yaml:"label"`
	to    *destination
}

func (c *destinationConfig) Validate() config.Problems { return nil }

func (c *destinationConfig) Open(context.Context, sinks.Env) (sinks.Sink, error) {
	c.to.mu.Lock()
	defer c.to.mu.Unlock()
	if c.to.open > 0 {
		return nil, errors.New("two sinks at a time")
	}
	c.to.open++
	c.to.opened = append(c.to.opened, c.Label)
	return &destinationSink{to: c.to}, nil
}

type destinationSink struct {
	to     *destination
	closed bool
}

func (s *destinationSink) Send(ctx context.Context, b sinks.Batch) error {
	s.to.mu.Lock()
	send := s.to.send
	s.to.mu.Unlock()
	if send != nil {
		if err := send(ctx, b); err != nil {
			return err
		}
	}
	s.to.mu.Lock()
	defer s.to.mu.Unlock()
	for _, it := range b.Items {
		s.to.got = append(s.to.got, string(it.Record))
	}
	return nil
}

func (s *destinationSink) Close(context.Context) error {
	s.to.mu.Lock()
	defer s.to.mu.Unlock()
	if !s.closed {
		s.closed = true
		s.to.open--
	}
	return nil
}

// plug is a source with one producer, the test.
type plug struct {
	mu     sync.Mutex
	opened []string        // labels, in the order of Run; guarded by mu
	lines  chan string     // for the session of now
	hang   <-chan struct{} // Run returns once it is closed; nil: at once
	now    int             // Runs; guarded by mu
}

type plugConfig struct {
	sources.Config
	Label string `yaml:"label"`
	in    *plug
}

func (c *plugConfig) Validate() config.Problems { return nil }

func (c *plugConfig) New(env sources.Env) sources.Source { return &plugSource{c, env} }

type plugSource struct {
	*plugConfig
	env sources.Env
}

func (s *plugSource) Connections() int { return 0 }

func (s *plugSource) Run(ctx context.Context, in sources.Intake, ready func()) error {
	s.in.mu.Lock()
	s.in.opened = append(s.in.opened, s.Label)
	if s.in.now++; s.in.now > 1 {
		panic("two sources of one name at a time")
	}
	s.in.mu.Unlock()
	defer func() {
		s.in.mu.Lock()
		defer s.in.mu.Unlock()
		s.in.now--
	}()
	session, _, err := in.Open(context.WithoutCancel(ctx), sources.Opening{Source: s.env.Name})
	if err != nil {
		return err
	}
	defer session.Close()
	ready()
	for {
		select {
		case line := <-s.in.lines:
			if err := session.Submit(context.WithoutCancel(ctx), []byte(line+"\n")); err != nil {
				return err
			}
		case <-ctx.Done():
			if s.in.hang != nil {
				<-s.in.hang
			}
			return session.Settle(context.WithoutCancel(ctx))
		}
	}
}

// reloads is an exporter that runs in a bubble.
type reloads struct {
	t   *testing.T
	cfg *Config
	e   *Exporter
	log *bytes.Buffer
	in  map[string]*plug
	to  map[string]*destination
	end func() error
}

func newReloads(t *testing.T, sourceNames, sinkNames string) *reloads {
	t.Helper()
	r := &reloads{t: t, log: &bytes.Buffer{}, in: map[string]*plug{}, to: map[string]*destination{}}
	r.cfg = &Config{
		Queue:  QueueConfig{Directory: socketless(t), MaxBytes: 16 << 20, WhenFull: Block},
		Limits: defaultLimits(), Shutdown: defaultShutdown(),
	}
	for _, name := range strings.Fields(sourceNames) {
		r.cfg.Sources = append(r.cfg.Sources, r.source(name, "1"))
	}
	for _, name := range strings.Fields(sinkNames) {
		r.cfg.Sinks = append(r.cfg.Sinks, r.sink(name, "1"))
	}
	r.run(r.cfg, nil)
	return r
}

func (r *reloads) run(cfg *Config, stored *Stored) {
	r.t.Helper()
	e, err := New(cfg, Options{Log: slog.New(slog.NewTextHandler(r.log, nil)), Store: true, Stored: stored})
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(r.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	end := sync.OnceValue(func() error {
		stop()
		return <-ended
	})
	r.t.Cleanup(func() { end() })
	r.cfg, r.e, r.end = cfg, e, end
	synctest.Wait()
}

func (r *reloads) source(name, label string) SourceConfig {
	if r.in[name] == nil {
		r.in[name] = &plug{lines: make(chan string)}
	}
	return SourceConfig{Name: name, Kind: "plug", Config: &plugConfig{Label: label, in: r.in[name]}}
}

func (r *reloads) sink(name, label string) SinkConfig {
	if r.to[name] == nil {
		r.to[name] = &destination{}
	}
	s := defaultSink()
	s.Name, s.Kind, s.Batch = name, "mem", sinks.BatchLimits{MaxRecords: 2, MaxBytes: 1 << 20}
	s.Config = &destinationConfig{Label: label, to: r.to[name]}
	return s
}

// with is the configuration with other parts.
func (r *reloads) with(change func(*Config)) *Config {
	cfg := *r.cfg
	cfg.Sources, cfg.Sinks = slices.Clone(cfg.Sources), slices.Clone(cfg.Sinks)
	change(&cfg)
	return &cfg
}

// reload makes a configuration in force.
func (r *reloads) reload(change func(*Config)) (waiting []string) {
	r.t.Helper()
	cfg := r.with(change)
	waiting, err := r.e.Reload(cfg)
	if err != nil {
		r.t.Fatalf("reload: %v", err)
	}
	r.cfg = cfg
	synctest.Wait()
	return waiting
}

// send has records from..to stored, over a source.
func (r *reloads) send(source string, from, to int) {
	r.t.Helper()
	for n := from; n <= to; n++ {
		r.in[source].lines <- fmt.Sprintf(`{"n":%d}`, n)
	}
	r.eventually("stored", func() bool { return r.e.queue.LastSeq() >= uint64(to) })
}

func (r *reloads) eventually(what string, ok func() bool) {
	r.t.Helper()
	for range 10000 {
		synctest.Wait()
		if ok() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	r.t.Fatalf("not in time: %s\n%s", what, r.log)
}

func numberedRecords(from, to int) (list []string) {
	for n := from; n <= to; n++ {
		list = append(list, fmt.Sprintf(`{"n":%d}`, n))
	}
	return list
}

func (r *reloads) delivered(sink string, from, to int) {
	r.t.Helper()
	want := numberedRecords(from, to)
	r.eventually("sink "+sink, func() bool { return len(r.to[sink].records()) >= len(want) })
	if got := r.to[sink].records(); !slices.Equal(got, want) {
		r.t.Errorf("sink %s: got %q, want %q", sink, got, want)
	}
}

// status is that of the sink called name; ok is false when there is none.
func (r *reloads) status(name string) (status SinkStatus, ok bool) {
	for _, s := range r.e.Status().Sinks {
		if s.Name == name {
			return s, true
		}
	}
	return status, false
}

// What is the same in another configuration is not touched, and what differs is opened anew
// and goes on where it was.
func TestReloadTouchesOnlyWhatDiffers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReloads(t, "a b", "siem bus")
		r.send("a", 1, 5)
		r.delivered("siem", 1, 5)
		before := r.e.parts()
		r.reload(func(c *Config) {
			c.Sources[1], c.Sinks[1] = r.source("b", "2"), r.sink("bus", "2")
			c.Sources[0], c.Sinks[0] = r.source("a", "1"), r.sink("siem", "1") // the same, read again
			c.Sources, c.Sinks = append(c.Sources, r.source("c", "1")), append(c.Sinks, r.sink("new", "1"))
		})
		r.send("a", 6, 7)
		r.send("b", 8, 8)
		r.send("c", 9, 9)
		for _, sink := range []string{"siem", "bus", "new"} {
			r.delivered(sink, 1, 9)
		}
		after := r.e.parts()
		if after.sources[0] != before.sources[0] || after.deliveries[0] != before.deliveries[0] {
			t.Error("a part that is the same was replaced")
		}
		if got, want := r.to["siem"].labels(), []string{"1"}; !slices.Equal(got, want) {
			t.Errorf("the sink that is the same was opened with %q, want %q", got, want)
		}
		if got, want := r.to["bus"].labels(), []string{"1", "2"}; !slices.Equal(got, want) {
			t.Errorf("the sink that differs was opened with %q, want %q", got, want)
		}
		if got, want := r.in["b"].opened, []string{"1", "2"}; !slices.Equal(got, want) {
			t.Errorf("the source that differs was run with %q, want %q", got, want)
		}
		if err := r.end(); err != nil {
			t.Error(err)
		}
	})
}

// The batch under way is decided before its sink changes: it comes once.
func TestReloadWaitsForTheBatchUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReloads(t, "a", "siem")
		r.to["siem"].answer(func(ctx context.Context, _ sinks.Batch) error {
			select {
			case <-time.After(batchWait / 2):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		r.send("a", 1, 4)
		r.reload(func(c *Config) { c.Sinks[0] = r.sink("siem", "2") })
		if got, want := r.to["siem"].records(), numberedRecords(1, 2); len(got) > 2 || !slices.Equal(got, want[:len(got)]) || len(got) == 0 {
			t.Errorf("delivered before the change: got %q, want the batch under way", got)
		}
		r.delivered("siem", 1, 4)
	})
}

// A removed sink gets what was stored until then and no more, and is forgotten.
func TestRemovedSinkIsDrained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReloads(t, "a", "siem bus")
		r.to["siem"].answer(func(context.Context, sinks.Batch) error { return errors.New("down") })
		r.send("a", 1, 5)
		r.reload(func(c *Config) { c.Sinks = c.Sinks[1:] })
		r.send("a", 6, 9)
		r.delivered("bus", 1, 9)
		if s, ok := r.status("siem"); !ok || s.State != Degraded || s.Reason != "Retired" {
			t.Errorf("got %+v, want a sink that is Retired", s)
		}
		s := r.e.Status()
		if i := slices.IndexFunc(s.Sinks, func(s SinkStatus) bool { return s.Name == "siem" }); s.Sinks[i].Pending != 5 || len(s.Ledger.Unbalanced()) > 0 {
			t.Errorf("got %+v and %v, want 5 records pending, and books that balance", s.Sinks[i], s.Ledger.Unbalanced())
		}
		time.Sleep(3 * retiredLook)
		if _, ok := r.status("siem"); !ok {
			t.Error("the sink is forgotten before it has its records")
		}
		r.to["siem"].answer(nil)
		r.eventually("the sink is forgotten", func() bool { _, ok := r.status("siem"); return !ok })
		r.delivered("siem", 1, 5)
		if _, ok := r.e.queue.Stats().Cursors["siem"]; ok {
			t.Error("the queue keeps records for the sink")
		}
		if open := r.to["siem"].open; open != 0 {
			t.Errorf("the sink is open %d times", open)
		}
		// Not retired, and not forgotten twice.
		r.reload(func(*Config) {})
	})
}

// A sink that is added again while it is drained goes on from its place, with what is new.
func TestRemovedSinkIsAddedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReloads(t, "a", "siem bus")
		fail := make(chan struct{})
		r.to["siem"].answer(func(_ context.Context, b sinks.Batch) error {
			if b.Items[0].Seq > 2 && !isClosed(fail) {
				return errors.New("down")
			}
			return nil
		})
		r.send("a", 1, 2)
		r.delivered("siem", 1, 2)
		r.send("a", 3, 5)
		r.reload(func(c *Config) { c.Sinks = c.Sinks[1:] })
		r.send("a", 6, 9)
		r.reload(func(c *Config) { c.Sinks = append(c.Sinks, r.sink("siem", "1")) })
		close(fail)
		r.delivered("siem", 1, 9)
		if s, _ := r.status("siem"); s.State != Active {
			t.Errorf("got %+v, want it Active", s)
		}
	})
}

// retire lets go at once, also of a sink that is being drained, whatever it is doing.
func TestRetireAtReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReloads(t, "a", "siem bus")
		r.to["siem"].answer(func(ctx context.Context, _ sinks.Batch) error { <-ctx.Done(); return ctx.Err() })
		r.send("a", 1, 5)
		began := time.Now()
		r.reload(func(c *Config) { c.Sinks[0].Retire = true })
		if took := time.Since(began); took > time.Second {
			t.Errorf("the reload took %s", took)
		}
		if _, ok := r.e.queue.Stats().Cursors["siem"]; ok {
			t.Error("the queue keeps records for the sink")
		}
		if _, ok := r.status("siem"); ok {
			t.Error("the sink is still in the status")
		}
		// Without retire it is a new sink, which begins with what is kept.
		r.to["siem"].answer(nil)
		r.reload(func(c *Config) { c.Sinks[0].Retire = false })
		r.send("a", 6, 6)
		r.eventually("new records", func() bool { return slices.Contains(r.to["siem"].records(), `{"n":6}`) })
	})
}

// What does not end is left as it was, and a later reload carries the change out.
func TestReloadOfASinkThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReloads(t, "a", "siem bus")
		release := make(chan struct{})
		r.to["siem"].answer(func(context.Context, sinks.Batch) error { <-release; return nil })
		r.send("a", 1, 4)
		cfg := r.with(func(c *Config) {
			c.Sinks[0], c.Sinks[1] = r.sink("siem", "2"), r.sink("bus", "2")
		})
		_, err := r.e.Reload(cfg)
		if _, ok := errors.AsType[*UnfinishedError](err); !ok || !strings.Contains(err.Error(), "sink siem is unchanged") {
			t.Fatalf("reload: got %v, want that siem is unchanged", err)
		}
		r.delivered("bus", 1, 4)
		if got, want := r.to["bus"].labels(), []string{"1", "2"}; !slices.Equal(got, want) {
			t.Errorf("the other sink was opened with %q, want %q", got, want)
		}
		close(release)
		synctest.Wait()
		if _, err := r.e.Reload(cfg); err != nil {
			t.Errorf("reload: %v", err)
		}
		r.delivered("siem", 1, 4)
		if got, want := r.to["siem"].labels(), []string{"1", "2"}; !slices.Equal(got, want) {
			t.Errorf("the sink was opened with %q, want %q", got, want)
		}
	})
}

// A source that hangs keeps the one after it waiting, and nothing else.
func TestReloadOfASourceThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReloads(t, "a b", "siem")
		release := make(chan struct{})
		r.in["a"].hang = release
		r.reload(func(c *Config) { c.Sources[0], c.Sources[1] = r.source("a", "2"), r.source("b", "2") })
		r.send("b", 1, 1)
		r.reload(func(c *Config) { c.Sources = c.Sources[1:] })
		r.reload(func(c *Config) { c.Sources = append(c.Sources, r.source("a", "3")) })
		r.in["a"].hang = nil
		close(release)
		r.send("a", 2, 2)
		r.delivered("siem", 1, 2)
	})
}

// A stop does not wait for a reload, and none begins after it.
func TestStopEndsAReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReloads(t, "a", "siem")
		r.to["siem"].answer(func(ctx context.Context, _ sinks.Batch) error { <-ctx.Done(); return ctx.Err() })
		r.send("a", 1, 4)
		reloaded := make(chan error, 1)
		go func() {
			_, err := r.e.Reload(r.with(func(c *Config) { c.Sinks[0] = r.sink("siem", "2") }))
			reloaded <- err
		}()
		synctest.Wait()
		began := time.Now()
		if err := r.end(); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > closeTimeout {
			t.Errorf("the stop took %s", took)
		}
		if err := <-reloaded; !errors.Is(err, ErrStopping) {
			t.Errorf("reload: got %v, want that docket stops", err)
		}
		if _, err := r.e.Reload(r.cfg); !errors.Is(err, ErrStopping) {
			t.Errorf("reload after the stop: got %v", err)
		}
	})
}

// Bounds of the queue and the drain timeout change at once, and the keys that cannot wait.
func TestReloadOfSections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReloads(t, "a", "siem")
		got := r.reload(func(c *Config) {
			c.Queue.MaxBytes, c.Queue.WhenFull = 32<<20, DropOldest
			c.Queue.Directory += "2"
			c.Limits.MaxRecordBytes, c.Admin.Address = 2<<20, "127.0.0.1:1"
			c.Shutdown.DrainTimeout = 7
		})
		if want := []string{"queue.directory", "admin.address", "limits.maxRecordBytes"}; !slices.Equal(got, want) {
			t.Errorf("waiting: got %q, want %q", got, want)
		}
		now := r.e.config()
		if now.Queue.MaxBytes != 32<<20 || now.Queue.WhenFull != DropOldest || now.Shutdown.DrainTimeout != 7 {
			t.Errorf("got %+v, want what can change at once", now)
		}
		if strings.HasSuffix(now.Queue.Directory, "2") || now.Limits.MaxRecordBytes == 2<<20 || now.Admin.Address != "" {
			t.Errorf("got %+v, want what cannot as it was", now)
		}
		if got := r.reload(func(c *Config) { *c = *r.e.config(); c.Queue.MaxBytes = 4 << 20 }); !slices.Equal(got, []string{"queue.maxBytes"}) {
			t.Errorf("waiting: got %q, want a bound that does not fit", got)
		}
	})
}

// A sink that is being drained goes on with that after a restart, and one that was removed
// meanwhile begins.
func TestRemovedSinkIsDrainedAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReloads(t, "a", "siem bus")
		dir := r.cfg.Queue.Directory
		down := func(context.Context, sinks.Batch) error { return errors.New("down") }
		r.to["siem"].answer(down)
		r.to["bus"].answer(down)
		r.send("a", 1, 5)
		r.reload(func(c *Config) { c.Sinks = append(c.Sinks[1:], r.sink("new", "1")) })
		r.send("a", 6, 9)
		r.cfg.Shutdown.DrainTimeout = 0
		if err := r.end(); err != nil {
			t.Error(err)
		}
		kinds := Kinds{
			Sources: sources.Registry{{Kind: "plug", NewConfig: func() sources.Config { return &plugConfig{in: r.in["a"]} }}},
			Sinks:   sinks.Registry{{Kind: "mem", NewConfig: func() sinks.Config { return &destinationConfig{} }}},
		}
		stored, err := LoadStored(dir, kinds)
		if err != nil {
			t.Fatal(err)
		}
		for i := range stored.Retired {
			stored.Retired[i].Sink.Config.(*destinationConfig).to = r.to[stored.Retired[i].Sink.Name]
		}
		for _, s := range stored.Config.Sinks {
			s.Config.(*destinationConfig).to = r.to[s.Name]
		}
		if !reflect.DeepEqual(stored.Config, r.e.config()) {
			t.Errorf("stored: got %+v, want %+v", stored.Config, r.e.config())
		}

		r.to["siem"].answer(nil)
		r.to["bus"].answer(nil)
		cfg := r.with(func(c *Config) { c.Sinks = c.Sinks[1:] })
		r.run(cfg, stored)
		r.send("a", 10, 11)
		r.delivered("new", 1, 11)
		r.eventually("both are forgotten", func() bool { return len(r.e.Status().Sinks) == 1 })
		r.delivered("siem", 1, 5)
		r.delivered("bus", 1, 9)
		if stored, err := LoadStored(dir, kinds); err != nil || len(stored.Retired) > 0 {
			t.Errorf("stored: got %+v, %v, want no retired sink any more", stored, err)
		}
	})
}

// A link in the place of the stored configuration is not followed, neither to read nor to
// write.
func TestPlantedStoredConfig(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReloads(t, "a", "siem")
		other := filepath.Join(t.TempDir(), "other.yaml")
		text, err := os.ReadFile(StoredPath(r.cfg.Queue.Directory))
		if err == nil {
			err = os.WriteFile(other, text, 0o600)
		}
		if err == nil {
			err = os.Remove(StoredPath(r.cfg.Queue.Directory))
		}
		if err == nil {
			err = os.Symlink(other, StoredPath(r.cfg.Queue.Directory))
		}
		if err != nil {
			t.Fatal(err)
		}
		if s, err := LoadStored(r.cfg.Queue.Directory, Kinds{}); err == nil || strings.Contains(err.Error(), "cannot use the stored configuration") {
			t.Errorf("got %+v, %v, want the link refused", s, err)
		}
		r.reload(func(c *Config) { c.Shutdown.DrainTimeout = 1 })
		if now, err := os.ReadFile(other); err != nil || !bytes.Equal(now, text) {
			t.Errorf("the other file was written to: %v", err)
		}
		if info, err := os.Lstat(StoredPath(r.cfg.Queue.Directory)); err != nil || !info.Mode().IsRegular() {
			t.Errorf("got %v, %v, want a file of docket's own", info, err)
		}
	})
}

// A stored configuration that has lost its end, or a byte, is refused, although it may be a
// configuration still.
func TestDamagedStoredConfig(t *testing.T) {
	doc := document[sourceEntry[sources.Config], sinkEntry[sinks.Config]]{APIVersion: "docket.dev/v1alpha1", Kind: "Exporter"}
	text, err := storedText(storedDocument[sourceEntry[sources.Config], sinkEntry[sinks.Config]]{Document: doc})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	load := func(text []byte) error {
		t.Helper()
		if err := os.WriteFile(StoredPath(dir), text, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := LoadStored(dir, Kinds{})
		return err
	}
	const damaged = "is damaged or edited"
	if err := load(text); err == nil || strings.Contains(err.Error(), damaged) {
		t.Errorf("whole: got %v, want that it has no sources", err)
	}
	for n := range text {
		if err := load(text[:n]); err == nil || !strings.Contains(err.Error(), damaged) {
			t.Fatalf("%d bytes of %d: got %v, want %q", n, len(text), err, damaged)
		}
		flipped := bytes.Clone(text)
		flipped[n] ^= 1
		if err := load(flipped); err == nil || !strings.Contains(err.Error(), damaged) {
			t.Fatalf("byte %d changed: got %v, want %q", n, err, damaged)
		}
	}
}
