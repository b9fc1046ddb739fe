package delta

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"time"

	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/internal/fileversion"
	"github.com/docket-export/docket/sources/statefile"
)

// The state on disk is one file, replaced as a whole: a line with its version, an entry a
// line for each violation that stands, and last a line with the rest, which has the number and
// the checksum of the entries. A run writes the next state beside it while it is observed.

// stateVersion is the version of this form.
const stateVersion = 1

// maxEntry is longer than any entry: a part of a line, and some more.
const maxEntry = 1 << 30

// state is what a tracker knows after a restart, the violations aside.
type state struct {
	// Count and CRC are those of the entries.
	Count uint64 `json:"count"`
	CRC   uint32 `json:"crc32c"`
	// Runs are those that were committed, in that order; of the last maxRuns.
	Runs []string `json:"runs"`
	// Snapshot is the last complete run that had one, Begun the last that began one.
	Snapshot string `json:"snapshot,omitempty"`
	Begun    string `json:"begun,omitempty"`
	// Interval between snapshots holds for the run after those.
	Interval time.Duration `json:"interval"`
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Check reports a state at path of a version that Open would not read, as a
// *fileversion.Error. It changes nothing.
func Check(path disk.Path) error {
	err := scan(path, func([]byte) error { return io.EOF }, nil)
	if unknown, ok := errors.AsType[*fileversion.Error](err); ok {
		return unknown
	}
	return nil
}

// damage is what is wrong with a file that was not written by a tracker.
type damage struct{ error }

// scan calls entry for each entry of the file at path, and last, if it is not nil, for the line
// behind them. No file is no entry.
func scan(path disk.Path, entry func(line []byte) error, last func(line []byte) error) error {
	f, err := path.OpenRead()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("delta: %w", err)
	}
	defer f.Close()
	lines := bufio.NewScanner(disk.Reader(f))
	lines.Buffer(make([]byte, 64<<10), maxEntry)
	var head struct{ Version *uint64 }
	if !lines.Scan() && lines.Err() != nil {
		return fmt.Errorf("delta: %w", lines.Err())
	}
	if json.Unmarshal(lines.Bytes(), &head) != nil || head.Version == nil {
		return damage{errors.New("the first line has no version")}
	}
	if *head.Version != stateVersion {
		return &fileversion.Error{File: path.String(), Found: *head.Version, Known: stateVersion}
	}
	var before []byte // the line before, which is the last if no other follows
	for isFirst := true; lines.Scan(); isFirst = false {
		if !isFirst {
			if err := entry(before); err != nil {
				return err
			}
		}
		before = append(before[:0], lines.Bytes()...)
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("delta: %w", err)
	}
	if last == nil {
		return nil
	}
	return last(before)
}

// load reads the state that is there. A damaged one is set aside.
func (t *Tracker) load() error {
	sum := crc32.New(castagnoli)
	runs := make(map[string]*string) // one text for all that a run has opened
	err := scan(t.path, func(entry []byte) error {
		k, ok := entryKey(entry)
		opened := entryOpened(entry)
		if !ok || opened == "" {
			return damage{errors.New("a line is not an entry")}
		}
		if runs[opened] == nil {
			runs[opened] = &opened
		}
		t.standing[k] = standing{opened: runs[opened]}
		_, _ = sum.Write(append(entry, '\n'))
		return nil
	}, func(last []byte) error {
		if err := json.Unmarshal(last, &t.state); err != nil {
			return damage{err}
		}
		if n := uint64(len(t.standing)); n != t.state.Count || sum.Sum32() != t.state.CRC {
			return damage{fmt.Errorf("it has %d violations with checksum %08x, not %d with %08x", n, sum.Sum32(), t.state.Count, t.state.CRC)}
		}
		return nil
	})
	if _, isDamaged := errors.AsType[damage](err); !isDamaged {
		return err
	}
	t.state, t.standing = state{Interval: t.interval}, make(map[key]standing)
	kept := t.path.Append(".damaged")
	if renameErr := t.path.Rename(kept); renameErr != nil {
		return fmt.Errorf("delta: %w", errors.Join(renameErr, err))
	}
	return &statefile.DamagedError{Path: t.path.String(), Kept: kept.String(), Err: err}
}

// next is the state after a run, on its way to the disk.
type next struct {
	path  disk.Path
	file  disk.File
	w     *bufio.Writer
	count uint64
	crc   uint32
}

func (t *Tracker) newState() (*next, error) {
	if err := t.path.Dir().MakeDir(); err != nil {
		return nil, fmt.Errorf("delta: %w", err)
	}
	n := &next{path: t.path.Append(disk.NewSuffix)}
	var err error
	if n.file, err = n.path.CreateAnew(); err != nil {
		return nil, fmt.Errorf("delta: %w", err)
	}
	n.w = bufio.NewWriterSize(io.NewOffsetWriter(n.file, 0), 64<<10)
	fmt.Fprintf(n.w, "{\"version\":%d}\n", stateVersion)
	return n, nil
}

// add writes an entry. The writer says at the end that it could not.
func (n *next) add(entry []byte) {
	n.count++
	n.crc = crc32.Update(n.crc, castagnoli, entry)
	_, _ = n.w.Write(entry)
}

// replace makes the state durable in the place of the one before.
func (n *next) replace(path disk.Path, s state) error {
	last, err := json.Marshal(s)
	if err == nil {
		_, _ = n.w.Write(append(last, '\n'))
		err = n.w.Flush()
	}
	if err == nil {
		err = n.file.Sync()
	}
	if err == nil {
		err = n.path.Rename(path)
	}
	if err == nil {
		err = path.Dir().SyncDir()
	}
	if err != nil {
		return fmt.Errorf("delta: %w", err)
	}
	return nil
}
