package filesink

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/sinks/filesink/manifest"
	"github.com/docket-export/docket/sinks/filesink/verify"
)

// audit is what a reader makes of an export by the manifest and the position: it
// believes nothing that it cannot see.
type audit struct {
	t        *testing.T
	dir      string
	problems []string
	// fates of the seqs, by queue and seq: the record, or the reason of its gap.
	// Those of records whose file was removed are in here too.
	fates map[string]string

	last    map[string]uint64 // of each queue
	files   map[string]bool   // in the manifest; false: removed
	removed []manifest.Removed
	entries []manifest.Entry
}

func (a *audit) problemf(format string, args ...any) {
	a.problems = append(a.problems, fmt.Sprintf(format, args...))
}

// auditOf goes through the export in dir, in which nothing is to change.
func auditOf(t *testing.T, dir string) *audit {
	t.Helper()
	a := &audit{t: t, dir: dir, fates: map[string]string{}, last: map[string]uint64{}, files: map[string]bool{}}
	end, previous := a.readManifest()
	for i := range a.entries {
		a.finished(&a.entries[i])
	}
	a.noStrangers()

	p, ok := readAccepted(t, dir)
	if !ok {
		t.Fatal("there is no sound position")
	}
	if p.manifest != end || p.chain != previous {
		a.problemf("the position has %d bytes of the manifest and hash %s, the manifest %d and %s", p.manifest, p.chain, end, previous)
	}
	switch {
	case p.active != nil:
		a.covers(p.active)
		a.content(p.active)
	default:
		for g := range p.gaps.All() {
			for seq := g.From; seq <= g.To; seq++ {
				a.fate(p.queue.String(), seq, string(g.Reason))
			}
		}
	}
	return a
}

func (a *audit) readManifest() (end int64, previous manifest.Hash) {
	text, err := os.ReadFile(filepath.Join(a.dir, manifest.FileName))
	if err != nil {
		a.t.Fatal(err)
	}
	r := manifest.NewReader(bytes.NewReader(text))
	for {
		line, err := r.Next()
		if line == nil {
			if r.Torn() > 0 {
				a.problemf("the manifest has %d torn bytes, %v", r.Torn(), err)
			}
			return int64(len(text) - r.Torn()), previous
		}
		if err != nil {
			a.problemf("manifest: %v", err)
		}
		if line.Previous != previous {
			a.problemf("line %d of the manifest does not follow the one before", r.Number())
		}
		previous = line.Hash
		if line.Removed != nil {
			if !a.files[line.Removed.Name] {
				a.problemf("%s is removed, and was not there", line.Removed.Name)
			}
			a.files[line.Removed.Name] = false
			a.removed = append(a.removed, *line.Removed)
			continue
		}
		if _, twice := a.files[line.Entry.Name]; twice {
			a.problemf("%s is in the manifest twice", line.Entry.Name)
		}
		a.files[line.Entry.Name] = true
		a.entries = append(a.entries, *line.Entry)
	}
}

// finished checks a file of the manifest.
func (a *audit) finished(e *manifest.Entry) {
	a.covers(e)
	if a.files[e.Name] {
		a.content(e)
		return
	}
	if there, err := disk.At(a.dir).Join(e.Name).Exists(); there || err != nil {
		a.problemf("%s is removed, and is there: %v", e.Name, err)
	}
	for _, seq := range a.seqs(e) {
		a.fate(e.Queue, seq, record(e.Lineage().At(seq), seq)) // nobody can say otherwise
	}
}

// covers notes the gaps of e, and that it follows what was before.
func (a *audit) covers(e *manifest.Entry) {
	if err := e.Follow(a.last[e.Queue]); err != nil {
		a.problemf("%s: %v", e.Name, err)
	}
	a.last[e.Queue] = e.LastSeq
	for g := range e.Gaps.All() {
		for seq := g.From; seq <= g.To; seq++ {
			a.fate(e.Queue, seq, string(g.Reason))
		}
	}
}

// before is the last seq before e.
func (a *audit) before(e *manifest.Entry) uint64 {
	var last uint64
	for _, other := range a.entries {
		if other.Queue == e.Queue && other.LastSeq < e.LastSeq {
			last = max(last, other.LastSeq)
		}
	}
	return last
}

// seqs are those of the records of e.
func (a *audit) seqs(e *manifest.Entry) (list []uint64) {
	gaps := map[uint64]bool{}
	for g := range e.Gaps.All() {
		for seq := g.From; seq <= g.To; seq++ {
			gaps[seq] = true
		}
	}
	for seq := e.From(a.before(e)); seq <= e.LastSeq; seq++ {
		if !gaps[seq] {
			list = append(list, seq)
		}
	}
	return list
}

// content notes the records of the file of e, which are exactly those it names.
func (a *audit) content(e *manifest.Entry) {
	path := filepath.Join(a.dir, e.Name)
	data, err := os.ReadFile(path)
	if err != nil {
		a.problemf("%v", err)
		return
	}
	if int64(len(data)) != e.Bytes || sha256.Sum256(data) != e.SHA256 {
		a.problemf("%s has %d bytes with hash %x, want %d with %s", e.Name, len(data), sha256.Sum256(data), e.Bytes, e.SHA256)
		return
	}
	list := linesOf(a.t, path, decompress(a.t, path, data))
	seqs := a.seqs(e)
	if len(list) != len(seqs) || uint64(len(list)) != e.Records {
		a.problemf("%s has %d records, names %d of them, and counts %d", e.Name, len(list), len(seqs), e.Records)
		return
	}
	for i, seq := range seqs {
		a.fate(e.Queue, seq, list[i])
	}
	if first, last := record(e.Lineage().At(e.FirstSeq), e.FirstSeq), list[len(list)-1]; list[0] != first {
		a.problemf("%s begins with %s and ends with %s", e.Name, list[0], last)
	}
}

func (a *audit) fate(queue string, seq uint64, what string) {
	id := fmt.Sprintf("%.4s-%05d", queue, seq)
	if before, twice := a.fates[id]; twice {
		a.problemf("%s is there twice: as %s and as %s", id, before, what)
	}
	a.fates[id] = what
}

// noStrangers wants no finished file that is not in the manifest, and no empty
// directory.
func (a *audit) noStrangers() {
	err := filepath.WalkDir(a.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(a.dir, path)
		if err == nil && manifest.IsFinished(name) && !a.files[name] {
			a.problemf("%s is not in the manifest, or removed", name)
		}
		return err
	})
	if err != nil {
		a.t.Fatal(err)
	}
}

// breakIn is what docket verify finds in the export in dir.
func breakIn(t *testing.T, dir string) *verify.Break {
	t.Helper()
	report, err := verify.Run(t.Context(), dir, verify.Options{})
	if err != nil {
		t.Fatalf("verify: %v", err)
	}
	return report.Break
}

// mustAudit wants the export in dir to have no problems.
func mustAudit(t *testing.T, dir string) *audit {
	t.Helper()
	a := auditOf(t, dir)
	for _, p := range a.problems {
		t.Error(p)
	}
	return a
}
