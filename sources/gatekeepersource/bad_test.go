package gatekeepersource

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/decision"
	"github.com/docket-export/docket/sources"
	"github.com/docket-export/docket/sources/failures"
	"github.com/docket-export/docket/sources/gatekeepersource/inventory"
	"github.com/docket-export/docket/sources/gatekeepersource/runs"
)

// readAlone reads a file's first size bytes without a scanner. name is that which the
// file has at Gatekeeper.
func readAlone(t *testing.T, f *os.File, name string, size int) []string {
	t.Helper()
	var texts []string
	in := direct{take: func(lines []byte) {
		texts = append(texts, strings.Split(strings.TrimSuffix(string(lines), "\n"), "\n")...)
	}}
	channel, base := path.Split(name)
	stem, suffix, _ := strings.Cut(base, ".")
	file := inventory.File{
		ID: "1", Channel: path.Clean(channel), Name: base, Stem: stem, Size: int64(size),
		IsRun: !strings.HasPrefix(base, "admission-"), IsAbandoned: suffix == "txt",
	}
	newAlone(file, f).read(t, in)
	return texts
}

// alone is an inventory of one file.
type alone struct {
	file    inventory.File
	content *os.File
	state   inventory.Channel
	isRead  bool
}

func newAlone(file inventory.File, content *os.File) *alone {
	return &alone{file: file, content: content}
}

// read reads the file until it is durable.
func (a *alone) read(t testing.TB, in sources.Intake) {
	t.Helper()
	env := sources.Env{Name: "gk", MaxRecordBytes: maxRecord, Log: slog.New(slog.DiscardHandler)}
	src := &source{env: env, failures: failures.New(env.Log, ""), pieceBytes: runs.PieceBytes}
	last := make(chan struct{})
	close(last)
	if err := src.reader(a, in).Run(context.Background(), last); err != nil || src.Report().Trouble != "" {
		t.Fatalf("read the first %d bytes of %s: %v, %s", a.file.Size, a.file.Path(), err, src.Report().Trouble)
	}
}

func (a *alone) Next(time.Time) (inventory.File, bool) {
	was := a.isRead
	a.isRead = true
	return a.file, !was
}

func (a *alone) Content(inventory.File) (*os.File, func(), error) { return a.content, func() {}, nil }

func (a *alone) Finish(inventory.File)              {}
func (a *alone) Lose(inventory.File)                {}
func (a *alone) Postpone(inventory.File, time.Time) {}
func (a *alone) Save() error                        { return nil }
func (a *alone) Wake() <-chan struct{}              { return nil }

func (a *alone) Channel(string) inventory.Channel                     { return a.state }
func (a *alone) SetChannel(_ string, update func(*inventory.Channel)) { update(&a.state) }

func tempFile(t *testing.T, content string) *os.File {
	t.Helper()
	place := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(place, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(place, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

var samples = map[string]string{ // by the name it has at Gatekeeper
	"audit-channel/2026-11-21T07_38_01Z.log": sampleRun,
	"audit-channel/2026-11-21T07_38_01Z.txt": sampleRun,
	"audit-channel/2026-11-21T07_36_06Z.log": sampleFailed,
	"audit-channel/" + sampleSpool:           sampleSpool,
}

// A file cut at any byte gives every line that is whole, and is complete only if nothing
// but the last newline is missing.
func TestTruncatedAnywhere(t *testing.T) {
	t.Parallel()
	for name, file := range samples {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			content := sample(t, file)
			f := tempFile(t, content)
			isRun, isLive := strings.HasPrefix(path.Base(name), "2026"), strings.HasSuffix(name, ".txt")
			for size := range len(content) + 1 {
				texts := readAlone(t, f, name, size)
				want := strings.Split(content[:size], "\n")
				tail := want[len(want)-1]
				if tail == "" || isLive && !json.Valid([]byte(tail)) {
					want = want[:len(want)-1]
				}
				if isRun {
					found := runsOf(t, texts[len(texts)-1:])
					whole := size >= len(content)-1 && file == sampleRun
					if len(found) != 1 || found[0].Complete != whole {
						t.Fatalf("cut at %d of %d: got the run record %s, want complete: %v", size, len(content), texts[len(texts)-1], whole)
					}
					texts = texts[:len(texts)-1]
				}
				if wantTexts(t, texts, want); t.Failed() {
					t.Fatalf("cut at %d of %d", size, len(content))
				}
			}
		})
	}
}

// A file with any bit flipped gives its lines, and is complete only if it still says as
// much as before.
func TestFlippedBits(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	if testing.Short() {
		seed = 1 // the gate decides nothing by chance
	}
	for name, file := range samples {
		if strings.HasSuffix(name, ".txt") {
			continue // it is read as one that was finished
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 0))
			content := []byte(sample(t, file))
			f := tempFile(t, string(content))
			for i := range content {
				flipped := content[i] ^ 1<<random.IntN(8)
				if _, err := f.WriteAt([]byte{flipped}, int64(i)); err != nil {
					t.Fatal(err)
				}
				texts := readAlone(t, f, name, len(content))
				if _, err := f.WriteAt(content[i:i+1], int64(i)); err != nil {
					t.Fatal(err)
				}
				if !strings.HasPrefix(path.Base(name), "2026") {
					continue
				}
				r := runsOf(t, texts[len(texts)-1:])[0]
				if r.Complete && (r.Violations != 13 || len(texts) != 16) {
					t.Fatalf("seed %d, byte %d is %q: got %+v, want it incomplete", seed, i, flipped, r)
				}
			}
		})
	}
}

// Lines that are no records are handed to the queue, which refuses and keeps them, and
// the run is not complete. Those around them are read.
func TestBadLines(t *testing.T) {
	t.Parallel()
	id := runAt(0)
	good := violationLine(id, 0)
	long := `{"id":"` + id + `","details":"` + strings.Repeat("x", 2<<20) + `"}`
	for name, test := range map[string]struct {
		lines  []string
		reason decision.RunReason
		count  uint64 // of violations
		bad    uint64
	}{
		"line of 2 MiB":         {[]string{startLine(id), good, long, good, endLine(id)}, decision.Damaged, 2, 1},
		"garbage":               {[]string{"\x00\x01\xff", "\x80", "zz"}, decision.Damaged, 0, 3},
		"not UTF-8":             {[]string{startLine(id), strings.Replace(good, "cart", "c\xffrt", 1), endLine(id)}, decision.Damaged, 0, 1},
		"array":                 {[]string{startLine(id), good, "[" + good + "]", endLine(id)}, decision.Damaged, 1, 1},
		"deep":                  {[]string{startLine(id), `{"a":` + strings.Repeat("[", 500_000) + strings.Repeat("]", 500_000) + "}", endLine(id)}, decision.Damaged, 0, 1},
		"of another run":        {[]string{startLine(id), good, violationLine(runAt(1), 1), endLine(id)}, decision.Damaged, 1, 1},
		"of another kind":       {[]string{startLine(id), good, `{"id":"` + id + `","eventType":"violation_admission","kind":"K","name":"n"}`, endLine(id)}, decision.Damaged, 1, 1},
		"without a constraint":  {[]string{startLine(id), good, `{"id":"` + id + `","eventType":"violation_audited"}`, endLine(id)}, decision.Damaged, 1, 1},
		"blank lines":           {[]string{startLine(id), "", good, " \t", "\r", endLine(id)}, decision.StartToEnd, 1, 0},
		"ends with CR":          {[]string{startLine(id) + "\r", good + "\r", endLine(id) + "\r"}, decision.StartToEnd, 1, 0},
		"no start":              {[]string{good, endLine(id)}, decision.NoStart, 1, 0},
		"no end":                {[]string{startLine(id), good}, decision.NoEnd, 1, 0},
		"empty":                 {nil, decision.NoStart, 0, 0},
		"second start":          {[]string{startLine(id), good, startLine(id), endLine(id)}, decision.Damaged, 1, 1},
		"lines after the end":   {[]string{startLine(id), good, endLine(id), good}, decision.Damaged, 2, 0},
		"nothing but the start": {[]string{startLine(id)}, decision.NoEnd, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			content := strings.Join(test.lines, "\n")
			w.put(fileOf(id)+".log", content)
			w.start()
			r := w.awaitRuns(1)[0]
			if r.Reason != test.reason || r.Complete != (test.reason == decision.StartToEnd) || r.Violations != test.count || r.Invalid != test.bad {
				t.Errorf("got %+v, want %s with %d violations and %d invalid lines", r, test.reason, test.count, test.bad)
			}
			var want []string
			for _, line := range test.lines {
				if line = strings.TrimSuffix(line, "\r"); strings.TrimSpace(line) != "" {
					want = append(want, line[:min(len(line), max(maxPrefix, maxRecord*btoi(len(line) <= maxRecord)))])
				}
			}
			lines := w.intake.Lines()
			wantTexts(t, w.texts()[:len(lines)-1], want)
			for i, l := range lines {
				if l.Number != uint64(i+1) {
					t.Errorf("got number %d for line %d", l.Number, i+1)
				}
				if long := i < len(test.lines) && len(test.lines[i]) > maxRecord; long != (l.Refused == sources.TooLarge) {
					t.Errorf("line %d: got it refused as %q", i+1, l.Refused)
				}
			}
		})
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// The run record stays shorter than a record may be.
func TestManyConstraints(t *testing.T) {
	t.Parallel()
	const maxConstraints = 2048
	id := runAt(0)
	lines := []string{startLine(id)}
	for n := range maxConstraints + 100 {
		name := fmt.Sprintf("%d-%s", n, strings.Repeat("n", 600))
		lines = append(lines, strings.Replace(violationLine(id, n), "require-team", name, 1))
	}
	lines = append(lines, endLine(id))
	w := newWorld(t)
	w.put(fileOf(id)+".log", text(lines))
	w.start()
	r := w.awaitRuns(1)[0]
	if !r.Complete || r.Violations != maxConstraints+100 || len(r.Constraints) != 0 || !strings.Contains(r.Detail, "too many constraints") {
		t.Errorf("got %.300v, want a complete run without a list", r)
	}
	for _, l := range w.intake.Lines() {
		if len(l.Text) > maxRecord {
			t.Errorf("got a line of %d bytes, want at most %d", len(l.Text), maxRecord)
		}
	}
}

// direct is an intake that settles within Submit and hands on what it gets. It costs
// nothing beside what take does.
type direct struct{ take func(lines []byte) }

func (d direct) Open(_ context.Context, o sources.Opening) (sources.Session, uint64, error) {
	return &directSession{direct: d, o: o, number: o.Next - 1}, 0, nil
}

type directSession struct {
	direct
	o      sources.Opening
	number uint64
}

func (s *directSession) Submit(_ context.Context, lines []byte) error {
	n := bytes.Count(lines, []byte{'\n'})
	s.number += uint64(n)
	s.take(lines)
	s.o.Settled(sources.Receipt{Through: s.number, Lines: n})
	return nil
}

func (s *directSession) SubmitTooLarge(context.Context, []byte, int64) error { return nil }
func (s *directSession) CountDuplicates(context.Context, int) error          { return nil }
func (s *directSession) Settle(context.Context) error                        { return nil }
func (s *directSession) Close()                                              {}
