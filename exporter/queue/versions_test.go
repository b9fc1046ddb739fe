package queue

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"

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
		{"*.segment", "segment", segmentVersion - 1, segmentVersion},
		{"cursors", "cursors", cursorsVersion + 1, cursorsVersion},
		{"cursors", "cursors", cursorsVersion - 1, cursorsVersion},
		{"positions", "positions", positionsVersion + 1, positionsVersion},
		{"positions", "positions", positionsVersion - 1, positionsVersion},
	} {
		t.Run(fmt.Sprint(c.file, " of version ", c.found), func(t *testing.T) {
			opts := Options{Directory: t.TempDir(), SegmentBytes: 16 << 10}
			q := open(t, opts)
			cursorOf(t, q, "a")
			storeNumbered(t, q, 1, 3, 1)
			closeQueue(t, q)
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
