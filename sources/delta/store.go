package delta

import (
	"bufio"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/sources/statefile"
)

// The state on disk, where path is that of the tracker:
//
//	path          the document of state, replaced as a whole; it names one of
//	path.N        the violations that stand, an entry a line, the longest standing
//	              first; never changed once it is named
//	path.opened   entries of the run that is under way, where they are many; of no
//	              meaning after a restart
//
// A crash at any step leaves a document and the file that it names. Other files with
// such names are what a crash has left behind; they are removed.

// stateVersion is the version of this form.
const stateVersion = 1

// spillBytes is how much of the entries of a run is held in memory.
const spillBytes = 256 << 10

// maxEntry is longer than any entry: a part of a line, and some more.
const maxEntry = 1 << 30

// entries is a file of entries, and proof that it is whole.
type entries struct {
	File  string `json:"file,omitempty"` // its name; empty: nothing stands
	Count uint64 `json:"count"`
	CRC   uint32 `json:"crc32c"`
}

func (t *Tracker) spillPath() disk.Path { return t.path.Append(".opened") }

// Check reports a state at path of a version that Open would not read, as a
// *fileversion.Error. It changes nothing.
func Check(path disk.Path) error { return statefile.Check(path, stateVersion) }

// load reads the state that is there.
func (t *Tracker) load() error {
	found, err := statefile.Load(t.path, stateVersion, &t.state)
	if err == nil && found {
		if err = t.loadEntries(); err != nil {
			err = t.setAside(err)
		}
	}
	if err != nil {
		t.state, t.standing = state{}, make(map[key]standing)
	}
	if !found || err != nil {
		t.state.Interval = t.interval
	}
	if _, damaged := errors.AsType[*statefile.DamagedError](err); damaged {
		if err := t.eachFile(func(path disk.Path, _ uint64) error { return path.Rename(path.Append(".damaged")) }); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	return t.tidy()
}

// setAside keeps a document whose entries are not what it says.
func (t *Tracker) setAside(cause error) error {
	kept := t.path.Append(".damaged")
	if err := t.path.Rename(kept); err != nil {
		return fmt.Errorf("delta: %w", errors.Join(err, cause))
	}
	return &statefile.DamagedError{Path: t.path.String(), Kept: kept.String(), Err: cause}
}

// eachFile calls do for every path.N there is.
func (t *Tracker) eachFile(do func(path disk.Path, n uint64) error) error {
	dir, base := t.path.Dir(), t.path.Base()
	names, err := dir.List()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("delta: %w", err)
	}
	for _, name := range names {
		number, ours := strings.CutPrefix(name, base+".")
		if n, err := strconv.ParseUint(number, 10, 64); ours && err == nil {
			if err := do(dir.Join(name), n); err != nil {
				return fmt.Errorf("delta: %w", err)
			}
		}
	}
	return nil
}

// tidy removes what is of no use: files of entries that the state does not name, and
// what a run has left that was not committed.
func (t *Tracker) tidy() error {
	if err := t.spillPath().RemoveAny(); err != nil {
		return fmt.Errorf("delta: %w", err)
	}
	return t.eachFile(func(path disk.Path, n uint64) error {
		if path.Base() == t.state.Entries.File {
			t.files = max(t.files, n)
			return nil
		}
		return path.Remove()
	})
}

// entriesPath is where the state's entries are.
func (t *Tracker) entriesPath() disk.Path {
	return t.path.Dir().Join(filepath.Base(t.state.Entries.File))
}

// loadEntries reads what stands, and proves that it is all there.
func (t *Tracker) loadEntries() error {
	want := t.state.Entries
	if want.File == "" {
		return nil
	}
	sum := crc32.New(castagnoli)
	runs := make(map[string]*string) // one text for all that a run has opened
	err := scanFile(t.entriesPath(), sum, func(entry []byte) error {
		k, ok := entryKey(entry)
		opened := entryOpened(entry)
		if !ok || opened == "" {
			return errors.New("a line is not an entry")
		}
		if runs[opened] == nil {
			runs[opened] = &opened
		}
		t.standing[k] = standing{opened: runs[opened]}
		return nil
	})
	if err != nil {
		return fmt.Errorf("%s: %w", want.File, err)
	}
	if n := uint64(len(t.standing)); n != want.Count || sum.Sum32() != want.CRC {
		return fmt.Errorf("%s is damaged: it has %d violations with checksum %08x, not %d with %08x",
			want.File, n, sum.Sum32(), want.Count, want.CRC)
	}
	return nil
}

// castagnoli is CRC-32C.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// scanFile calls do for every line of a file, and writes to sum what it has read.
func scanFile(path disk.Path, sum io.Writer, do func(line []byte) error) error {
	f, err := path.OpenRead()
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(io.TeeReader(disk.Reader(f), sum))
	lines.Buffer(make([]byte, 64<<10), maxEntry)
	for lines.Scan() {
		if err := do(lines.Bytes()); err != nil {
			return err
		}
	}
	return lines.Err()
}

// eachEntry calls do for what stood before the run, the longest standing first.
func (t *Tracker) eachEntry(do func(entry []byte, s standing) error) error {
	if t.state.Entries.File == "" {
		return nil
	}
	return scanFile(t.entriesPath(), io.Discard, func(entry []byte) error {
		k, _ := entryKey(entry)
		s, ok := t.standing[k]
		if !ok {
			return fmt.Errorf("delta: %s has changed while it was in use", t.entriesPath())
		}
		return do(entry, s)
	})
}

// save makes the state after r durable.
func (t *Tracker) save(next state, r *Run) error {
	if r.changes.Opened > 0 || r.changes.Resolved > 0 {
		var err error
		if next.Entries, err = t.writeEntries(r); err != nil {
			return fmt.Errorf("delta: %w", err)
		}
	}
	if err := statefile.Save(t.path, next); err != nil {
		return fmt.Errorf("delta: %w", err)
	}
	t.state = next
	_ = t.tidy() // what cannot be removed is tried again at the next commit
	return nil
}

// writeEntries writes what stands after r to a file of its own.
func (t *Tracker) writeEntries(r *Run) (e entries, err error) {
	e.Count = r.changes.Standing
	if e.Count == 0 {
		return e, nil
	}
	// A number is not used again, even if this fails: a document that was renamed, and
	// whose directory could not be synced, may name the file.
	t.files++
	e.File = t.path.Base() + "." + strconv.FormatUint(t.files, 10)
	dir := t.path.Dir()
	if err := dir.MakeDir(); err != nil {
		return e, err
	}
	sum := crc32.New(castagnoli)
	err = dir.Join(e.File).WriteNewBy(func(f disk.File) error {
		w := bufio.NewWriterSize(io.MultiWriter(io.NewOffsetWriter(f, 0), sum), 64<<10)
		err := t.eachEntry(func(entry []byte, s standing) error {
			if r.resolve && s.seen != t.mark {
				return nil
			}
			_, _ = w.Write(entry) // it says so again at the next call
			return w.WriteByte('\n')
		})
		if err != nil {
			return err
		}
		return errors.Join(r.opened.writeTo(w, t.spillPath()), w.Flush())
	})
	e.CRC = sum.Sum32()
	return e, err
}
