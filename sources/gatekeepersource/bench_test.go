package gatekeepersource

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/docket-export/docket/decision/rawjson"
	"github.com/docket-export/docket/sources"
	"github.com/docket-export/docket/sources/gatekeepersource/inventory"
)

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

// exportFile is an audit of some 64 MiB.
func exportFile(b *testing.B) (*os.File, int64) {
	b.Helper()
	id := runAt(0)
	block := []byte(violationLine(id, 12345) + "\n")
	content := append([]byte(startLine(id)+"\n"), bytes.Repeat(block, 64<<20/len(block))...)
	place := filepath.Join(b.TempDir(), "run")
	if err := os.WriteFile(place, append(content, endLine(id)+"\n"...), 0o600); err != nil {
		b.Fatal(err)
	}
	f, err := os.Open(place)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { f.Close() })
	info, err := f.Stat()
	if err != nil {
		b.Fatal(err)
	}
	return f, info.Size()
}

// BenchmarkRead reads an audit into an intake that costs nothing.
func BenchmarkRead(b *testing.B) { benchmarkRead(b, func([]byte) {}) }

// BenchmarkReadValidated reads it into one that costs about as much as the real one.
func BenchmarkReadValidated(b *testing.B) {
	benchmarkRead(b, func(lines []byte) {
		for line := range bytes.Lines(lines) {
			if rawjson.KindOf(line) == rawjson.Invalid {
				b.Error("got a line that is no JSON")
			}
		}
	})
}

func benchmarkRead(b *testing.B, take func(lines []byte)) {
	f, size := exportFile(b)
	b.SetBytes(size)
	for b.Loop() {
		a := newAlone(inventory.File{ID: "1", Channel: "c", Stem: "2026-11-21T00_00_00Z", IsRun: true, Size: size}, f)
		a.read(b, direct{take: take})
		if got := a.state.Previous; got == nil || *got == 0 {
			b.Fatal("got no complete run")
		}
	}
}

// BenchmarkRaw reads the same bytes and does nothing with them.
func BenchmarkRaw(b *testing.B) {
	f, size := exportFile(b)
	b.SetBytes(size)
	buf := make([]byte, 256<<10)
	for b.Loop() {
		if _, err := io.CopyBuffer(io.Discard, onlyReader{io.NewSectionReader(f, 0, size)}, buf); err != nil {
			b.Fatal(err)
		}
	}
}

type onlyReader struct{ io.Reader }
