package delta

import (
	"path/filepath"
	"testing"

	"github.com/docket-export/docket/internal/disk"
)

// BenchmarkObserve is a run in which nothing changes.
func BenchmarkObserve(b *testing.B) {
	tracker, err := Open(disk.At(b.TempDir()).Join("audit"), 0)
	if err != nil {
		b.Fatal(err)
	}
	r := tracker.Begin(runID(0))
	stands := line("", 1)
	b.SetBytes(int64(len(stands)))
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := r.Observe(nil, stands); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkOpen is a start with 100,000 violations that stand.
func BenchmarkOpen(b *testing.B) {
	path := filepath.Join(b.TempDir(), "audit")
	tracker, err := Open(disk.At(path), 0)
	if err != nil {
		b.Fatal(err)
	}
	r := tracker.Begin(runID(0))
	for i := range 100_000 {
		if _, _, err := r.Observe(nil, line("", i)); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := r.End(true, nil); err != nil {
		b.Fatal(err)
	}
	if err := r.Commit(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := Open(disk.At(path), 0); err != nil {
			b.Fatal(err)
		}
	}
}
