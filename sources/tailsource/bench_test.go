package tailsource

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docket-export/docket/sources"
	"github.com/docket-export/docket/sources/tailsource/formats"
)

// discard is an intake that takes everything at once.
type discard struct{ lines atomic.Int64 }

type discardSession struct {
	d    *discard
	o    sources.Opening
	next uint64
}

func (d *discard) Open(_ context.Context, o sources.Opening) (sources.Session, uint64, error) {
	return &discardSession{d, o, o.Next}, o.Next - 1, nil
}

func (s *discardSession) Submit(_ context.Context, lines []byte) error {
	n := strings.Count(string(lines), "\n")
	s.next += uint64(n)
	s.o.Settled(sources.Receipt{Through: s.next - 1, Lines: n})
	s.d.lines.Add(int64(n))
	return nil
}

func (s *discardSession) SubmitTooLarge(context.Context, []byte, int64) error { return nil }
func (s *discardSession) CountDuplicates(context.Context, int) error          { return nil }
func (s *discardSession) Settle(context.Context) error                        { return nil }
func (s *discardSession) Close()                                              {}

// BenchmarkRead reads an existing file.
func BenchmarkRead(b *testing.B) {
	sampleLines := string(sample(b, "webhook-log-denies.jsonl"))
	for name, test := range map[string]struct {
		format formats.Format
		text   string
	}{
		"json":                    {formats.JSON, sampleLines},
		"cri":                     {formats.CRI, string(frame([]byte(sampleLines)))},
		"gatekeeperDenies":        {formats.GatekeeperDenies, sampleLines},
		"gatekeeperDenies, audit": {formats.GatekeeperDenies, string(sample(b, "audit-stderr-one-run.jsonl"))},
	} {
		b.Run(name, func(b *testing.B) {
			text := strings.Repeat(test.text, 64<<20/len(test.text))
			path := filepath.Join(b.TempDir(), "a.log")
			if err := os.WriteFile(path, []byte(text+"{\"event_type\":\"violation\"}\n2026-01-05T10:04:07.1Z stdout F {\"end\":1}\n"), 0o600); err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				one := decode(test.format, 1<<20, 1<<20, []byte(test.text))
				want := int64(len(one)*(len(text)/len(test.text))) + 1
				in := &discard{}
				ctx, cancel := context.WithCancel(b.Context())
				c := Config{Path: path, Format: test.format}
				env := newEnv(b)
				ended := make(chan error)
				go func() { ended <- c.New(env).Run(ctx, in, func() {}) }()
				for in.lines.Load() < want {
					time.Sleep(time.Millisecond) // the source reads on another goroutine
				}
				cancel()
				if err := <-ended; err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
