package filesink

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docket-export/docket/internal/disk"
)

// BenchmarkSend sends records of 1 KB that compress about as decisions do.
func BenchmarkSend(b *testing.B) {
	for _, c := range []Compression{None, Gzip, Zstd} {
		for _, n := range []int{1, 64, 4096} {
			b.Run(fmt.Sprintf("compress=%s/records=%d", c, n), func(b *testing.B) { benchmarkSend(b, c, n) })
		}
	}
}

func benchmarkSend(b *testing.B, compress Compression, n int) {
	c := rotating(b.TempDir(), 64<<20)
	c.Compress = compress
	s, err := open(c, env(), nil)
	if err != nil {
		b.Fatal(err)
	}
	items := batch(queueA, 1, uint64(n))
	for i := range items.Items {
		items.Items[i].Record = kilobyte(i)
	}
	seq := uint64(1)
	b.SetBytes(int64(items.Size()))
	b.ReportAllocs()
	for b.Loop() {
		for i := range items.Items {
			items.Items[i].Seq, seq = seq, seq+1
		}
		if err := s.Send(context.Background(), items); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "records/s")
	if err := s.Close(context.Background()); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkRaw is what the disk can do: one write and one sync for each batch.
func BenchmarkRaw(b *testing.B) {
	const bytes, perFile = 4 << 20, 16
	content := make([]byte, 0, bytes)
	for i := 0; len(content) < bytes; i++ {
		content = append(content, kilobyte(i)...)
	}
	dir := b.TempDir()
	var f *os.File
	b.SetBytes(bytes)
	for n := 0; b.Loop(); n++ {
		if n%perFile == 0 {
			if err := f.Close(); f != nil && err != nil {
				b.Fatal(err)
			}
			var err error
			if f, err = os.Create(filepath.Join(dir, fmt.Sprint(n))); err != nil {
				b.Fatal(err)
			}
		}
		if _, err := f.Write(content[:bytes]); err != nil {
			b.Fatal(err)
		}
		if err := disk.Sync(f); err != nil {
			b.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		b.Fatal(err)
	}
}

// kilobyte is a record of 1 KB, different for each i.
func kilobyte(i int) []byte {
	digits := strings.Builder{}
	random := rand.New(rand.NewPCG(uint64(i), 1))
	for digits.Len() < 300 {
		fmt.Fprintf(&digits, "%016x", random.Uint64())
	}
	text := fmt.Sprintf(`{"eventType":"violation","process":"admission","resourceNamespace":"team-%d","digest":%q,"details":"`, i%50, digits.String())
	for len(text) < 1022 {
		text += "container <nginx> has no resource limits; "
	}
	return []byte(text[:1022] + `"}`)
}
