package verify

import (
	"bytes"
	"compress/gzip"
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/docket-export/docket/sinks"
	"github.com/docket-export/docket/sinks/filesink/manifest"
)

const (
	queueA = "3f6c1d9e-6f0f-4a53-9a57-0d6c9b0f3a11"
	queueB = "8a0b7c52-1f7e-4f5e-8d0a-5b1f0f2d9c22"
)

var when = time.Date(2026, 1, 5, 10, 4, 7, 0, time.UTC)

// builder makes exports as a file sink does.
type builder struct {
	t     *testing.T
	dir   string
	chain manifest.Chain
	last  map[string]uint64
	n     int
	// record makes the record with a seq; nil: recordOf.
	record func(queue string, seq uint64) string
}

func newBuilder(t *testing.T) *builder {
	return &builder{t: t, dir: filepath.Join(t.TempDir(), "export"), last: map[string]uint64{}}
}

func recordOf(queue string, seq uint64) string {
	return fmt.Sprintf(`{"n":%d,"queue":%q,"text":%q}`, seq, queue[:4], strings.Repeat("x", int(seq%7)))
}

func (b *builder) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// file is one of an export.
type file struct {
	name  string
	queue string // queueA when empty
	from  uint64 // the first seq; 0: behind the file before
	to    uint64
	gaps  []sinks.Gap
}

// add writes a file and its line, and returns the name.
func (b *builder) add(f file) string {
	b.t.Helper()
	e, data := b.entry(f)
	b.write(e.Name, data)
	line, chain, err := b.chain.Entry(e)
	b.must(err)
	b.chain = chain
	b.append(line)
	b.last[e.Queue] = e.LastSeq
	return e.Name
}

func (b *builder) entry(f file) (manifest.Entry, []byte) {
	b.t.Helper()
	b.n++
	if f.queue == "" {
		f.queue = queueA
	}
	if f.from == 0 {
		f.from = b.last[f.queue] + 1
	}
	if f.name == "" {
		f.name = fmt.Sprintf("decisions-%020d-%020d-20260105T1004%02dZ.ndjson", f.from, f.to, b.n)
	}
	e := manifest.Entry{Name: f.name, Queue: f.queue, LastSeq: f.to, FirstTime: when, LastTime: when, Finished: when}
	for _, g := range f.gaps {
		b.must(e.Gaps.Add(g.From, g.To, g.Reason))
	}
	record := b.record
	if record == nil {
		record = recordOf
	}
	var raw bytes.Buffer
	for seq := f.from; seq <= f.to; seq++ {
		if _, isGap := e.Gaps.Find(seq); isGap {
			continue
		}
		if e.Records++; e.Records == 1 {
			e.FirstSeq = seq
		}
		raw.WriteString(record(f.queue, seq) + "\n")
	}
	data := compress(b.t, f.name, raw.Bytes())
	e.SHA256, e.Bytes = sha256.Sum256(data), int64(len(data))
	return e, data
}

func compress(t *testing.T, name string, raw []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	switch filepath.Ext(name) {
	case ".gz":
		for part := range slices.Chunk(raw, 40) { // members
			w := gzip.NewWriter(&b)
			if _, err := w.Write(part); err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
		}
	case ".zst":
		w, err := zstd.NewWriter(nil)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		for part := range slices.Chunk(raw, 40) { // frames
			b.Write(w.EncodeAll(part, nil))
		}
	default:
		b.Write(raw)
	}
	return b.Bytes()
}

func sumOf(data []byte) manifest.Hash { return sha256.Sum256(data) }

// remove deletes a file as retention does.
func (b *builder) remove(name string) {
	b.t.Helper()
	line, chain, err := b.chain.Removed(manifest.Removed{Name: name, Reason: manifest.MaxAge, Time: when})
	b.must(err)
	b.chain = chain
	b.append(line)
	b.must(os.Remove(b.path(name)))
}

func (b *builder) append(line []byte) {
	b.t.Helper()
	b.must(os.MkdirAll(b.dir, 0o700))
	f, err := os.OpenFile(b.path(manifest.FileName), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	b.must(err)
	_, err = f.Write(line)
	b.must(err)
	b.must(f.Close())
}

func (b *builder) path(name string) string { return filepath.Join(b.dir, filepath.FromSlash(name)) }

func (b *builder) write(name string, data []byte) {
	b.t.Helper()
	b.must(os.MkdirAll(filepath.Dir(b.path(name)), 0o700))
	b.must(os.WriteFile(b.path(name), data, 0o600))
}

func (b *builder) read(name string) []byte {
	b.t.Helper()
	data, err := os.ReadFile(b.path(name))
	b.must(err)
	return data
}

// change replaces the content of a file by what edit makes of it.
func (b *builder) change(name string, edit func([]byte) []byte) {
	b.t.Helper()
	b.write(name, edit(b.read(name)))
}

// changeLines does so with the lines of a file.
func (b *builder) changeLines(name string, edit func([]string) []string) {
	b.t.Helper()
	b.change(name, func(data []byte) []byte {
		lines := slices.Collect(strings.Lines(string(data)))
		return []byte(strings.Join(edit(lines), ""))
	})
}

// chainAnew writes the chain anew after edit has changed the entries, as somebody
// would who has no key, or another.
func (b *builder) chainAnew(key ed25519.PrivateKey, edit func([]*manifest.Line) []*manifest.Line) {
	b.t.Helper()
	var lines []*manifest.Line
	for line, err := range manifest.Read(bytes.NewReader(b.read(manifest.FileName))) {
		b.must(err)
		lines = append(lines, line)
	}
	b.must(os.Remove(b.path(manifest.FileName)))
	chain := manifest.Chain{Key: key}
	for _, l := range edit(lines) {
		var line []byte
		var err error
		if l.Entry != nil {
			line, chain, err = chain.Entry(*l.Entry)
		} else {
			line, chain, err = chain.Removed(*l.Removed)
		}
		b.must(err)
		b.append(line)
	}
	b.chain = chain
}

// standard is an export of 20 records in 4 files, the first of which retention has
// removed, with a gap in the third.
func standard(b *builder, suffix string) (names []string) {
	b.t.Helper()
	for i, f := range []file{
		{to: 5}, {to: 10}, {to: 15, gaps: []sinks.Gap{{From: 11, To: 11, Reason: sinks.Filtered}, {From: 13, To: 13, Reason: sinks.Dropped}}}, {to: 20},
	} {
		f.name = standardName(i+1) + suffix
		names = append(names, b.add(f))
	}
	b.remove(names[0])
	return names
}

func testKey(seed byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(slices.Repeat([]byte{seed}, ed25519.SeedSize))
}

func publicKeys(seeds ...byte) (keys []ed25519.PublicKey) {
	for _, seed := range seeds {
		keys = append(keys, testKey(seed).Public().(ed25519.PublicKey))
	}
	return keys
}

func mustRun(t *testing.T, dir string, o Options) Report {
	t.Helper()
	r, err := Run(t.Context(), dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
