package cli

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/internal/testcli"
)

const tailConfig = `apiVersion: docket.dev/v1alpha1
kind: Exporter
sources:
- name: log
  tail: {path: DIR/logs/engine.log, format: json}
queue: {directory: DIR/queue, QUEUE}
sinks:
- name: export
  batch: {maxWait: 5ms}
  retry: {maxBackoff: 500ms}
  file: {directory: DIR/export, rotate: {maxBytes: 256Ki}}
admin: {address: "ADMIN"}
`

// logWriter writes lines to a log that it rotates by itself, as engines do.
type logWriter struct {
	t       *testing.T
	dir     string
	file    *os.File
	pad     string
	written []string
	rotated int
}

func newLogWriter(t *testing.T, dir string) *logWriter {
	t.Helper()
	w := &logWriter{t: t, dir: filepath.Join(dir, "logs"), pad: strings.Repeat("x", 200)}
	if err := os.Mkdir(w.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	w.open()
	t.Cleanup(func() { w.file.Close() })
	return w
}

func (w *logWriter) path() string { return filepath.Join(w.dir, "engine.log") }

func (w *logWriter) open() {
	file, err := os.OpenFile(w.path(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		w.t.Error(err)
	}
	w.file = file
}

func (w *logWriter) write(n int) {
	for range n {
		line := fmt.Sprintf(`{"n":%d,"pad":%q}`, len(w.written), w.pad[:len(w.written)%200])
		if _, err := w.file.WriteString(line + "\n"); err != nil {
			w.t.Error(err)
		}
		w.written = append(w.written, line)
	}
}

// rotate gives the file a dated name and begins another.
func (w *logWriter) rotate() {
	w.rotated++
	if err := os.Rename(w.path(), fmt.Sprintf("%s.20260105-%06d", w.path(), w.rotated)); err != nil {
		w.t.Error(err)
	}
	w.file.Close()
	w.open()
}

// run writes and rotates until ctx is done.
func (w *logWriter) run(ctx context.Context, dice *rand.Rand) {
	for ctx.Err() == nil {
		w.write(1 + dice.IntN(60))
		if dice.IntN(4) == 0 {
			w.rotate()
		}
		pause(ctx, time.Duration(dice.IntN(20))*time.Millisecond) // between bursts
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// wantExportedOnce waits until all that was written is in the file export, and looks
// that each line is there once.
func (w *logWriter) wantExportedOnce(admin, dir string) {
	w.t.Helper()
	waitDelivered(w.t, admin, uint64(len(w.written)))
	eventually(w.t, "every line in the export", func() bool {
		exported := exportedNow(w.t, filepath.Join(dir, "export"))
		return !slices.ContainsFunc(w.written, func(line string) bool { return !exported[line] })
	})
	waitDelivered(w.t, admin, uint64(len(w.written))) // and nothing more comes
	times := map[string]int{}
	for _, line := range exportedLines(w.t, filepath.Join(dir, "export")) {
		times[line]++
	}
	lost, twice := 0, 0
	for _, line := range w.written {
		switch times[line] {
		case 0:
			lost++
		case 1:
		default:
			twice++
		}
		delete(times, line)
	}
	if lost > 0 || twice > 0 || len(times) > 0 {
		w.t.Errorf("got %d of %d lines lost, %d more than once, %d that were never written", lost, len(w.written), twice, len(times))
	}
	w.t.Logf("%d lines in %d files, each in the export once", len(w.written), w.rotated+1)
}

// TestTailKill: a log that rotates several times a second is in the export line by
// line, each once, although docket is killed again and again at random moments.
func TestTailKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	admin, err := testcli.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "docket.yaml"),
		strings.NewReplacer("ADMIN", admin, "DIR", dir, "QUEUE", "maxBytes: 64Mi").Replace(tailConfig))
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	w := newLogWriter(t, dir)
	w.write(1)
	docket := startDocket(t, dir)
	waitDelivered(t, admin, 1) // docket does not look for files that were rotated before it has seen the log
	kill(t, docket)
	ctx, stop := context.WithCancel(t.Context())
	written := make(chan struct{})
	go func() {
		defer close(written)
		w.run(ctx, rand.New(rand.NewPCG(seed, 1)))
	}()
	dice := rand.New(rand.NewPCG(seed, 2))
	for range onceIfShort(*kills) {
		docket = startDocket(t, dir)
		if dice.IntN(4) > 0 {
			if err := waitReady(t, admin); err != nil {
				t.Fatal(err)
			}
		}
		pause(t.Context(), time.Duration(dice.IntN(400))*time.Millisecond) // the moment is what is random
		kill(t, docket)
	}
	stop()
	<-written
	docket = startDocket(t, dir)
	w.wantExportedOnce(admin, dir)
	kill(t, docket)
}

// TestTailWhileTheQueueIsFull: the log rotates, and the rotated files are removed, while
// the queue takes nothing because its sink is down. Then the sink is repaired.
func TestTailWhileTheQueueIsFull(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	admin, err := testcli.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "docket.yaml"), strings.NewReplacer("ADMIN", admin, "DIR", dir,
		"QUEUE", "maxBytes: 16Mi").Replace(tailConfig))
	writeFile(t, filepath.Join(dir, "export"), "in the way of the sink")
	w := newLogWriter(t, dir)
	w.pad = strings.Repeat("x", 4000)
	docket := startDocket(t, dir)
	if err := waitReady(t, admin); err != nil {
		t.Fatal(err)
	}
	rounds := 12
	if testing.Short() {
		rounds = 4 // more than the queue takes
	}
	for range rounds {
		for range 4 { // 6 MiB
			w.writeLong(400)
		}
		// What is gone before it was ever seen is lost.
		eventually(t, "a docket that has the log open", func() bool { return hasOpen(t, docket, w.file) })
		w.rotate()
		if err := os.Remove(fmt.Sprintf("%s.20260105-%06d", w.path(), w.rotated)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(dir, "export")); err != nil {
		t.Fatal(err)
	}
	w.write(1)
	w.wantExportedOnce(admin, dir)
	kill(t, docket)
}

// hasOpen says whether a process has file open, under whatever name.
func hasOpen(t *testing.T, cmd *exec.Cmd, file *os.File) bool {
	t.Helper()
	want, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	open, err := filepath.Glob("/proc/" + pid(cmd) + "/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(open, func(name string) bool {
		got, err := os.Stat(name)
		return err == nil && os.SameFile(got, want) // an error says that it is closed by now
	})
}

// writeLong writes lines of some 4 KB.
func (w *logWriter) writeLong(n int) {
	for range n {
		line := fmt.Sprintf(`{"n":%d,"pad":%q}`, len(w.written), w.pad)
		if _, err := w.file.WriteString(line + "\n"); err != nil {
			w.t.Error(err)
		}
		w.written = append(w.written, line)
	}
}
