package filesink

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/docket-export/docket/internal/disk"
)

func compressed(dir string, c Compression) Config {
	cfg := rotating(dir, 0)
	cfg.Compress = c
	return cfg
}

// TestForms wants every form to be readable as far as it was accepted, at any
// time, and to be cut back to that.
func TestForms(t *testing.T) {
	for c, suffix := range map[Compression]string{None: "", Gzip: ".gz", Zstd: ".zst"} {
		t.Run(string(c), func(t *testing.T) {
			dir := t.TempDir()
			active := activePrefix + suffix
			s := mustOpen(t, compressed(dir, c), nil)
			for last := uint64(1); last <= 5; last++ {
				mustSend(t, s, batch(queueA, last, last))
				wantLines(t, "active file", lines(t, filepath.Join(dir, active)), records(queueA, 1, last))
			}
			mustClose(t, s)
			appendTo(active, []byte("half a member"))(t, dir)

			s = mustOpen(t, compressed(dir, c), nil)
			mustSend(t, s, batch(queueA, 5, 400))
			mustFinish(t, s)
			mustSend(t, s, batch(queueA, 401, 401))
			wantLines(t, "exported", exported(t, dir), records(queueA, 1, 401))
			got := names(t, dir, "decisions-*ndjson*")
			if len(got) != 2 || !strings.HasSuffix(got[0], "Z.ndjson"+suffix) || got[1] != active {
				t.Errorf("files %v, want a finished one and the active one with %q at the end", got, suffix)
			}
			mustAudit(t, dir)
			size, err := disk.At(dir).Join(got[0]).Size()
			if err != nil {
				t.Fatal(err)
			}
			if plain := int64(len(strings.Join(records(queueA, 1, 400), "\n")) + 1); c == None != (size == plain) {
				t.Errorf("%s has %d bytes, and %d when it is not compressed", got[0], size, plain)
			}
		})
	}
}

// TestFormChanges wants the active file of the old form to be finished first, and
// nothing to happen before there is something to write.
func TestFormChanges(t *testing.T) {
	dir := t.TempDir()
	for i, c := range []Compression{None, Gzip, Zstd, None} {
		s := mustOpen(t, compressed(dir, c), nil)
		if got := len(finishedFiles(t, dir)); got != max(i-1, 0) {
			t.Errorf("%d finished files before a batch as %s, want %d", got, c, max(i-1, 0))
		}
		seq := uint64(i)*2 + 1
		mustSend(t, s, batch(queueA, 1, seq-1))
		mustSend(t, s, batch(queueA, seq, seq+1))
		mustClose(t, s)
	}
	var suffixes []string
	for _, name := range finishedFiles(t, dir) {
		suffixes = append(suffixes, name[strings.LastIndex(name, "Z."):])
	}
	if want := []string{"Z.ndjson", "Z.ndjson.gz", "Z.ndjson.zst"}; !slices.Equal(suffixes, want) {
		t.Errorf("finished files end with %v, want %v", suffixes, want)
	}
	if got, want := names(t, dir, activeGlob), []string{activePrefix}; !slices.Equal(got, want) {
		t.Errorf("active files %v, want %v", got, want)
	}
	mustAudit(t, dir)
	wantLines(t, "exported", exported(t, dir), records(queueA, 1, 8))
}

// TestDamageToCompressed sets aside what a damaged slot may have covered, in a file
// that can be read by itself.
func TestDamageToCompressed(t *testing.T) {
	for _, c := range []Compression{Gzip, Zstd} {
		for _, slots := range [][]int{{0}, {1}, {0, 1}} {
			t.Run(fmt.Sprint(c, slots), func(t *testing.T) {
				dir := t.TempDir()
				s := mustOpen(t, compressed(dir, c), nil)
				mustSend(t, s, batch(queueA, 1, 3))
				mustSend(t, s, batch(queueA, 4, 6))
				newer := int(positionOf(t, dir).offset() / slotDistance)
				mustClose(t, s)
				for _, slot := range slots {
					flipSlot(t, dir, slot)
				}
				s = mustOpen(t, compressed(dir, c), nil)
				mustSend(t, s, batch(queueA, 1, 7))
				var aside []string
				if len(slots) == 2 {
					aside = records(queueA, 1, 6)
				} else if slots[0] == newer {
					aside = records(queueA, 4, 6)
				}
				wantLines(t, "unnumbered", unnumbered(t, dir), aside)
				wantLines(t, "exported", exported(t, dir), records(queueA, 1, 7))
				mustAudit(t, dir)
			})
		}
	}
}

// TestStaleActiveFiles removes active files of other forms that a crash has left
// empty, and none that has records.
func TestStaleActiveFiles(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, compressed(dir, Gzip), nil)
	mustClose(t, s)
	if err := os.WriteFile(filepath.Join(dir, activePrefix+".zst"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	mustOpen(t, compressed(dir, None), nil)
	if got, want := names(t, dir, activeGlob), []string{activePrefix}; !slices.Equal(got, want) {
		t.Errorf("active files %v, want %v", got, want)
	}
}
