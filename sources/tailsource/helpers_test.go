package tailsource

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/internal/testleak"
	"github.com/docket-export/docket/internal/testlog"
	"github.com/docket-export/docket/sources"
	"github.com/docket-export/docket/sources/sourcetest"
	"github.com/docket-export/docket/sources/tailsource/formats"
)

func TestMain(m *testing.M) { testleak.Main(m) }

// few is by how much fewer of something a short test has.
func few(n int) int {
	if testing.Short() {
		return n
	}
	return 1
}

// bench is a log, a source that follows it, and an intake that takes its records.
type bench struct {
	t      *testing.T
	dir    string // of the log
	path   string
	config Config
	env    sources.Env
	in     *sourcetest.Intake
	log    testlog.Buffer
	grace  time.Duration

	source *source
	cancel context.CancelFunc
	ended  chan error
}

func newBench(t *testing.T, format formats.Format) *bench {
	t.Helper()
	dir := t.TempDir()
	b := &bench{t: t, grace: grace / 10, dir: dir, path: filepath.Join(dir, "manager.log"), in: sourcetest.New()}
	b.config = Config{Path: b.path, Format: format}
	b.env = sources.Env{
		Name: "log", MaxRecordBytes: 1 << 20, StateDir: disk.At(filepath.Join(t.TempDir(), "state")),
		Log: slog.New(slog.NewTextHandler(&b.log, nil)),
	}
	t.Cleanup(func() {
		b.stop()
		b.in.Close()
		if t.Failed() {
			t.Logf("log of the source:\n%s", b.log.String())
		}
	})
	return b
}

func (b *bench) start() {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.t.Context())
	b.cancel, b.ended = cancel, make(chan error, 1)
	b.source = b.config.New(b.env).(*source)
	b.source.grace, b.source.poll = b.grace, poll/100
	ready := make(chan struct{})
	go func() { b.ended <- b.source.Run(ctx, b.in, func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-b.ended:
		b.t.Fatalf("got %v before it was ready, want it to serve", err)
	}
}

// stop ends the source in order, if it runs.
func (b *bench) stop() {
	b.t.Helper()
	if b.cancel == nil {
		return
	}
	b.cancel()
	b.cancel = nil
	select {
	case err := <-b.ended:
		if err != nil {
			b.t.Errorf("stop: got %v, want nil", err)
		}
	case <-time.After(await.Left(b.t)):
		b.t.Fatal("got a source that does not stop")
	}
}

// crash ends the source as kill -9 would: the intake forgets what is not settled, and
// the state is the one that was last written.
func (b *bench) crash() {
	b.t.Helper()
	b.in.Crash()
	b.cancel()
	b.cancel = nil
	<-b.ended
	lines := b.in.Lines()
	b.in.Close()
	b.in = sourcetest.New()
	b.in.Restore(lines)
}

func (b *bench) write(text string) { b.t.Helper(); appendTo(b.t, b.path, text) }

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

// rotate renames the log to .1, .1 to .2 and so on, and keeps that many.
func (b *bench) rotate(keep int) {
	b.t.Helper()
	if err := os.Remove(fmt.Sprintf("%s.%d", b.path, keep)); err != nil && !os.IsNotExist(err) {
		b.t.Fatal(err)
	}
	for i := keep - 1; i > 0; i-- {
		if err := os.Rename(fmt.Sprintf("%s.%d", b.path, i), fmt.Sprintf("%s.%d", b.path, i+1)); err != nil && !os.IsNotExist(err) {
			b.t.Fatal(err)
		}
	}
	if err := os.Rename(b.path, b.path+".1"); err != nil {
		b.t.Fatal(err)
	}
}

// copyTruncate copies the log to a name and truncates it.
func (b *bench) copyTruncate(name string) {
	b.t.Helper()
	data, err := os.ReadFile(b.path)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.Remove(name); err != nil && !os.IsNotExist(err) {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(name, data, 0o644); err != nil {
		b.t.Fatal(err)
	}
	if err := os.Truncate(b.path, 0); err != nil {
		b.t.Fatal(err)
	}
}

// stored are the records, in order, without those that were refused.
func (b *bench) stored() (texts []string) {
	for _, l := range b.in.Lines() {
		if l.Refused == "" {
			texts = append(texts, l.Text)
		}
	}
	return texts
}

func (b *bench) refused() (texts []string) {
	for _, l := range b.in.Lines() {
		if l.Refused != "" {
			texts = append(texts, string(l.Refused)+" "+l.Text)
		}
	}
	return texts
}

// wantStored waits until that many records are stored, and compares them.
func (b *bench) wantStored(want []string) {
	b.t.Helper()
	b.await(fmt.Sprintf("%d records", len(want)), func() bool { return len(b.stored()) >= len(want) })
	b.compare(want)
}

func (b *bench) compare(want []string) {
	b.t.Helper()
	got := b.stored()
	if slices.Equal(got, want) {
		return
	}
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			b.t.Fatalf("record %d: got %q, want %q (%d records, want %d)", i, short(got[i]), short(want[i]), len(got), len(want))
		}
	}
	b.t.Fatalf("got %d records, want %d", len(got), len(want))
}

func short(s string) string { return s[:min(len(s), 200)] }

// await waits until the intake, or the system, is as it should be.
func (b *bench) await(what string, done func() bool) {
	b.t.Helper()
	for deadline := time.Now().Add(await.Left(b.t)); !done(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.t.Fatalf("no time is left to wait for %s; %d are stored: %v", what, len(b.stored()), b.source.Report())
		}
	}
}

func (b *bench) awaitTrouble(part string) {
	b.t.Helper()
	b.await(fmt.Sprintf("trouble %q", part), func() bool {
		got := b.source.Report().Trouble
		return part == "" && got == "" || part != "" && strings.Contains(got, part)
	})
}

// records makes n records that differ from all others.
func records(name string, n int) []string {
	texts := make([]string, n)
	for i := range texts {
		texts[i] = fmt.Sprintf(`{"log":%q,"n":%d,"pad":"%s"}`, name, i, strings.Repeat("x", i%97))
	}
	return texts
}

func lines(texts ...string) string { return strings.Join(texts, "\n") + "\n" }

func concat(parts ...[]string) []string { return slices.Concat(parts...) }
