package gatekeepersource

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/decision"
	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/internal/testleak"
	"github.com/docket-export/docket/internal/testlog"
	"github.com/docket-export/docket/sources"
	"github.com/docket-export/docket/sources/sourcetest"
)

func TestMain(m *testing.M) { testleak.Main(m) }

const (
	maxRecord = 1 << 20
	maxPrefix = 1 << 10 // of a line that is too long
	// segmentTime is how the name of a segment says when it was begun.
	segmentTime = "20060102T150405.000000000Z"
)

// world is a directory of Gatekeeper, and one for docket's state, on one volume.
type world struct {
	t      *testing.T
	path   string // of the Connection
	state  string
	config Config
	intake *sourcetest.Intake
	log    testlog.Buffer
	source sources.Source
	// pieceBytes is how much is sent at a time; 0: as ever.
	pieceBytes int
	// stopWait is how long a stop may take; 0: as ever.
	stopWait time.Duration
	// restFor is how long an abandoned run is at rest.
	restFor   time.Duration
	redaction sources.Redaction
	cancel    func()       // begins to stop the source
	end       func() error // and waits for its end; nil while none runs
}

// few is by how much fewer of something a short test has.
func few(n int) int {
	if testing.Short() {
		return n
	}
	return 1
}

func newWorld(t *testing.T) *world {
	t.Helper()
	base := t.TempDir()
	w := &world{t: t, path: filepath.Join(base, "topics"), state: filepath.Join(base, "docket", "gk")}
	w.config = Config{Path: w.path, SnapshotInterval: config.Duration(time.Hour)}
	w.newIntake()
	w.mkdir("audit-channel")
	t.Cleanup(func() {
		if w.end != nil {
			w.stop()
		}
	})
	return w
}

// newIntake is that of the next process: it knows what was durable in the one before.
func (w *world) newIntake() {
	next := sourcetest.New()
	if w.intake != nil {
		next.Restore(w.intake.Lines())
	}
	w.intake = next
	w.t.Cleanup(next.Close)
}

func (w *world) mkdir(channel string) {
	w.t.Helper()
	if err := os.MkdirAll(filepath.Join(w.path, channel), 0o777); err != nil {
		w.t.Fatal(err)
	}
}

// start runs the source, until stop or crash.
func (w *world) start() {
	w.t.Helper()
	if p := w.config.Validate(); len(p) > 0 {
		w.t.Fatalf("configuration: %v", p)
	}
	log := slog.New(slog.NewTextHandler(&w.log, nil))
	w.source = w.config.New(sources.Env{Name: "gk", MaxRecordBytes: maxRecord, StateDir: disk.At(w.state), Redaction: w.redaction, Log: log})
	w.source.(*source).poll, w.source.(*source).restFor = poll/200, w.restFor
	if w.pieceBytes > 0 {
		w.source.(*source).pieceBytes = w.pieceBytes
	}
	if w.stopWait > 0 {
		w.source.(*source).stopWait = w.stopWait
	}
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan error, 1)
	source, intake := w.source, w.intake
	go func() { ended <- source.Run(ctx, intake, func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-ended:
		cancel()
		w.t.Fatalf("the source did not start: %v", err)
	}
	w.cancel = cancel
	w.end = func() error {
		w.end = nil
		cancel()
		return <-ended
	}
}

// stop ends the source in order.
func (w *world) stop() {
	w.t.Helper()
	if err := w.end(); err != nil {
		w.t.Errorf("got %v from a source that was stopped, want nil", err)
	}
}

// crash ends the source as if its process had been killed: what was not settled is lost,
// and so is what it writes on its way out.
func (w *world) crash() {
	w.t.Helper()
	w.intake.Crash()
	kept := w.state + ".kept"
	err := os.Rename(w.state, kept)
	if end := w.end(); end != nil && !errors.Is(end, sourcetest.ErrCrashed) {
		w.t.Errorf("got %v from a source whose intake has crashed, want nil or that", end)
	}
	if err == nil {
		err = errors.Join(os.RemoveAll(w.state), os.Rename(kept, w.state))
	} else if errors.Is(err, fs.ErrNotExist) {
		err = os.RemoveAll(w.state)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.newIntake()
}

// put makes a file at once, as a rename does.
func (w *world) put(name, text string) {
	w.t.Helper()
	place := filepath.Join(w.path, name)
	hidden := filepath.Join(filepath.Dir(w.path), "hidden")
	if err := os.WriteFile(hidden, []byte(text), 0o666); err != nil {
		w.t.Fatal(err)
	}
	if err := os.Rename(hidden, place); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) remove(name string) {
	w.t.Helper()
	if err := os.RemoveAll(filepath.Join(w.path, name)); err != nil {
		w.t.Fatal(err)
	}
}

// texts are the lines stored or refused so far.
func (w *world) texts() []string {
	var all []string
	for _, l := range w.intake.Lines() {
		all = append(all, l.Text)
	}
	return all
}

// await waits until what was settled is as done wants it.
func (w *world) await(what string, done func(texts []string) bool) []string {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), await.Left(w.t))
	defer cancel()
	var texts []string
	if w.intake.Wait(ctx, func() bool { texts = w.texts(); return done(texts) }) != nil {
		w.t.Fatalf("got %d lines and not %s: %s\nlog: %s", len(texts), what, lastOf(texts), w.log.String())
	}
	return texts
}

func lastOf(texts []string) string { return strings.Join(texts[max(0, len(texts)-5):], "\n") }

func (w *world) awaitLines(n int) []string {
	w.t.Helper()
	return w.await(fmt.Sprintf("%d", n), func(texts []string) bool { return len(texts) >= n })
}

// awaitRuns waits for n run records.
func (w *world) awaitRuns(n int) []decision.Run {
	w.t.Helper()
	return runsOf(w.t, w.await(fmt.Sprintf("%d runs", n), func(texts []string) bool { return len(runsOf(w.t, texts)) >= n }))
}

// eventually waits for what no intake reports.
func (w *world) eventually(what string, done func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(await.Left(w.t)); !done(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.t.Fatalf("got no %s\nlog: %s\n%s", what, w.log.String(), stacks())
		}
	}
}

// awaitIdle waits until everything that was read is noted in the state on disk, and
// let go of.
func (w *world) awaitIdle() {
	w.t.Helper()
	w.eventually("empty directory of claims", func() bool {
		names, err := os.ReadDir(filepath.Join(w.state, "claims"))
		return err == nil && len(names) == 0
	})
}

func runsOf(t *testing.T, texts []string) []decision.Run {
	t.Helper()
	var runs []decision.Run
	for _, text := range texts {
		var run decision.Run
		if !strings.HasPrefix(text, `{"eventType":"docket.audit.run"`) {
			continue
		}
		if err := json.Unmarshal([]byte(text), &run); err != nil {
			t.Fatal(err)
		}
		runs = append(runs, run)
	}
	return runs
}

func wantTexts(t *testing.T, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got %d lines:\n%s\nwant %d:\n%s", len(got), strings.Join(got, "\n"), len(want), strings.Join(want, "\n"))
	}
}

// The lines of an audit as Gatekeeper writes them.

func startLine(id string) string { return fmt.Sprintf(`{"id":%q,"message":"audit is started"}`, id) }
func endLine(id string) string   { return fmt.Sprintf(`{"id":%q,"message":"audit is completed"}`, id) }

func violationLine(id string, n int) string {
	return fmt.Sprintf(`{"id":%q,"details":{"name":"x","n":12345678901234567890},"eventType":"violation_audited","group":"constraints.gatekeeper.sh",`+
		`"version":"v1beta1","kind":"K8sRequiredLabels","name":"require-team","message":"no team \u003c%d\u003e","enforcementAction":"deny",`+
		`"resourceAPIVersion":"v1","resourceKind":"Pod","resourceNamespace":"shop","resourceName":"cart-%d"}`, id, n, n)
}

// auditLines are those of a whole run with n violations.
func auditLines(id string, n int) []string {
	lines := []string{startLine(id)}
	for i := range n {
		lines = append(lines, violationLine(id, i))
	}
	return append(lines, endLine(id))
}

func text(lines []string) string { return strings.Join(lines, "\n") + "\n" }

// runAt is the id of the n-th audit of a day, fileOf its file without the suffix.
func runAt(n int) string {
	return time.Date(2026, 11, 21, 0, n, 0, 0, time.UTC).Format(time.RFC3339)
}
func fileOf(id string) string { return "audit-channel/" + strings.ReplaceAll(id, ":", "_") }

// sample returns one of the real captures, those of admission included.
func sample(t *testing.T, name string) string {
	t.Helper()
	captures, err := filepath.Glob(filepath.Join("..", "..", "testdata", "samples", "gatekeeper*", name))
	if err != nil || len(captures) != 1 {
		t.Fatalf("got the captures %q (%v) of %s, want one", captures, err, name)
	}
	data, err := os.ReadFile(captures[0])
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// driver writes audits as Gatekeeper's disk driver of 3.23 does: under a lock, one write
// for each line, renamed at the end, and then its retention, which looks at nothing.
type driver struct {
	t          *testing.T
	dir        string
	maxResults int
	file       *os.File // of the run that was begun last
}

// abandon ends the run that was begun last as the death of its process does.
func (d *driver) abandon() { d.file.Close() }

func (d *driver) begin(id string) (write func(line string), end func()) {
	d.t.Helper()
	name := filepath.Join(d.dir, strings.ReplaceAll(id, ":", "_"))
	f, err := os.OpenFile(name+".txt", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
	}
	if err != nil {
		d.t.Error(err)
	}
	d.file = f
	write = func(line string) {
		if _, err := f.WriteString(line + "\n"); err != nil {
			d.t.Error(err)
		}
	}
	end = func() {
		write(endLine(id))
		if err := unix.Flock(int(f.Fd()), unix.LOCK_UN); err != nil {
			d.t.Error(err)
		}
		f.Close()
		if err := os.Rename(name+".txt", name+".log"); err != nil {
			d.t.Error(err)
		}
		if err := os.Chmod(name+".log", 0o777); err != nil && !errors.Is(err, fs.ErrNotExist) {
			d.t.Error(err) // else docket has deleted it
		}
		d.retain()
	}
	write(startLine(id))
	return write, end
}

// retain deletes the oldest of all files beyond maxResults.
func (d *driver) retain() {
	entries, err := os.ReadDir(d.dir)
	if err != nil {
		d.t.Error(err)
	}
	type aged struct {
		name string
		at   time.Time
	}
	var files []aged
	for _, e := range entries {
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // docket has deleted it
		}
		if err != nil {
			d.t.Error(err)
			continue
		}
		files = append(files, aged{e.Name(), info.ModTime()})
	}
	slices.SortFunc(files, func(a, b aged) int { return a.at.Compare(b.at) })
	for len(files) > d.maxResults {
		if err := os.Remove(filepath.Join(d.dir, files[0].name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			d.t.Error(err)
		}
		files = files[1:]
	}
}

// statePath is where the source under test keeps its state.
func (w *world) statePath() string { return filepath.Join(w.state, "state.json") }
