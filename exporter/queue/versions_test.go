package queue

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/exporter/queue/inspect"
	"github.com/docket-export/docket/exporter/queue/state"
	"github.com/docket-export/docket/internal/fileversion"
)

// withVersion returns the content of a file of the queue as another docket would have
// written it. intact says whether its checksum holds.
var withVersion = map[string]func(b []byte, version int, intact bool) []byte{
	"segment": func(b []byte, version int, intact bool) []byte {
		le.PutUint32(b[8:], uint32(version))
		if intact {
			le.PutUint32(b[12:], headerSum(b))
		}
		return b
	},
	"cursors": func(b []byte, version int, intact bool) []byte {
		slot := b[slotSize:]
		if le.Uint64(b[16:]) > le.Uint64(slot[16:]) {
			slot = b
		}
		slot = slot[:le.Uint32(slot[44:])]
		le.PutUint32(slot[8:], uint32(version))
		if intact {
			le.PutUint32(slot[12:], slotSum(slot))
		}
		return b
	},
	"positions": func(b []byte, version int, intact bool) []byte {
		_, body, _ := bytes.Cut(b, []byte("\n"))
		crc := crc32.Checksum(body, castagnoli)
		if !intact {
			crc++
		}
		return append(fmt.Appendf(nil, positionsHead, version, crc), body...)
	},
}

// filesIn returns the files below dir but the lock, whose text is the owner's.
func filesIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	must(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == state.LockFile {
			return err
		}
		b, err := os.ReadFile(path)
		files[path] = string(b)
		return err
	}))
	return files
}

// A file of a version that this docket does not read is no damage: it is named, with its
// version, and nothing in the directory changes. Without its checksum no version is
// believed.
func TestUnknownVersionsAreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		file, kind   string
		found, known int
	}{
		{"*.segment", "segment", segmentVersion + 1, segmentVersion},
		{"*.segment", "segment", 0, segmentVersion},
		{"spare.77", "segment", segmentVersion + 1, segmentVersion},
		{"cursors", "cursors", cursorsVersion + 1, cursorsVersion},
		{"cursors", "cursors", cursorsBefore - 1, cursorsVersion},
		{"positions", "positions", positionsVersion + 1, positionsVersion},
		{"positions", "positions", 0, positionsVersion},
	} {
		t.Run(fmt.Sprint(c.file, " of version ", c.found), func(t *testing.T) {
			opts := Options{Directory: t.TempDir(), SegmentBytes: 16 << 10}
			q := open(t, opts)
			cursorOf(t, q, "a")
			storeNumbered(t, q, 1, 3, 1)
			closeQueue(t, q)
			seg, err := os.ReadFile(segmentFiles(t, opts.Directory)[0])
			must(t, err)
			must(t, os.WriteFile(filepath.Join(opts.Directory, "spare.77"), seg, 0o600))
			paths, err := filepath.Glob(filepath.Join(opts.Directory, c.file))
			if err != nil || len(paths) == 0 {
				t.Fatalf("no %s: %v", c.file, err)
			}
			path := paths[0]
			content, err := os.ReadFile(path)
			must(t, err)
			change := withVersion[c.kind]

			must(t, os.WriteFile(path, change(bytes.Clone(content), c.found, true), 0o600))
			before := filesIn(t, opts.Directory)
			want := fileversion.Error{File: path, Found: uint64(c.found), Known: uint64(c.known)}
			_, openErr := Open(opts)
			o, offlineErr := inspect.Open(opts.Directory, nil)
			if o != nil {
				t.Error("opened offline")
				must(t, o.Close())
			}
			for how, err := range map[string]error{"open": openErr, "open offline": offlineErr} {
				if unknown, ok := errors.AsType[*fileversion.Error](err); !ok || *unknown != want {
					t.Errorf("%s: got %v, want %+v", how, err, want)
				}
			}
			for name, content := range filesIn(t, opts.Directory) {
				if before[name] != content {
					t.Errorf("%s has changed", name)
				}
				delete(before, name)
			}
			if len(before) > 0 {
				t.Errorf("gone: %v", before)
			}

			must(t, os.WriteFile(path, change(content, c.found, false), 0o600))
			closeQueue(t, open(t, opts)) // damage, as ever
		})
	}
}

// unpack returns a queue that an earlier docket has written; see testdata/README.md.
func unpack(t *testing.T, name string) (dir string) {
	t.Helper()
	f, err := os.Open("testdata/segments1.tar.gz")
	must(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	must(t, err)
	dir = t.TempDir()
	for archive := tar.NewReader(z); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return dir
		}
		must(t, err)
		if file, ok := strings.CutPrefix(h.Name, name+"/"); ok && file != "" {
			b, err := io.ReadAll(archive)
			must(t, err)
			must(t, os.WriteFile(filepath.Join(dir, file), b, 0o600))
		}
	}
}

// A queue of the docket before, closed or killed, goes on where it was: nothing is
// delivered twice or lost, no line is stored twice, whoever sends it now, and nobody who
// goes on from an old position moves that of another.
func TestQueueOfSegmentVersion1(t *testing.T) {
	for _, state := range []string{"closed", "killed"} {
		t.Run(state, func(t *testing.T) {
			opts := Options{Directory: unpack(t, state), SegmentBytes: 16 << 10}
			for _, when := range []string{"at once", "after a restart", "after a kill"} {
				q := open(t, opts)
				s := q.Stats()
				if s.ID != "0e453ff8-67f5-4474-8709-e39fd32425c6" || s.LastSeq != 61 || s.Corrupt != 0 || s.Sources["webhook"].Stored != 46 || s.Sources["gatekeeper"].Stored != 15 {
					t.Fatalf("%s: got %+v", when, s)
				}
				if len(s.Cursors) != 2 || s.Cursors["bus"].Next != 53 || s.Cursors["siem"].Next != 46 || s.Cursors["bus"].Delivered != 52 {
					t.Errorf("%s: cursors: got %+v, want bus at 53 and siem at 46", when, s.Cursors)
				}
				for p, number := range map[Producer]uint64{
					{Source: "webhook", Identity: "uid:1", Name: "pod-a"}: 31, {Source: "webhook", Identity: "uid:1", Name: "pod-b"}: 15, {Source: "webhook", Identity: "any", Name: "pod-b"}: 15,
					{Source: "gatekeeper", Identity: "", Name: "gatekeeper/audits/run/17/900"}: 15, {Source: "gatekeeper", Identity: "", Name: "pod-a"}: 0,
				} {
					expectNumbers(t, q, when, p, number)
				}
				if when == "at once" {
					closeQueue(t, q)
				} else {
					killed(t, q)
				}
			}
			q := open(t, opts)
			mine, theirs := Producer{Source: "webhook", Identity: "uid:1", Name: "pod-a"}, Producer{Source: "webhook", Identity: "uid:2", Name: "pod-a"}
			store(t, q, said(mine, 32, 35))
			for range 2 {
				expectNumbers(t, q, "after more lines", mine, 35)
				expectNumbers(t, q, "after more lines of another", theirs, 31)
				killed(t, q)
				q = open(t, opts)
			}
			for name, first := range map[string]uint64{"bus": 53, "siem": 46} {
				c := cursorOf(t, q, name)
				ctx, cancel := context.WithTimeout(t.Context(), await.Left(t))
				defer cancel()
				next := first
				for next <= 61 {
					batch, err := c.Next(ctx, Limits{Records: 100, Bytes: 1 << 20})
					must(t, err)
					for _, r := range batch {
						if want := fmt.Sprintf(`{"n":%d,`, r.Seq); r.Seq != next || !strings.HasPrefix(string(r.Data), want) {
							t.Fatalf("sink %s: got record %d, %.20s, want %d", name, r.Seq, r.Data, next)
						}
						next++
					}
				}
			}
		})
	}
}
