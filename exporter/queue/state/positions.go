package state

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/google/uuid"

	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/internal/fileversion"
	"github.com/docket-export/docket/internal/lineage"
)

// Checkpoint is the state up to the offset End of the segment with Epoch, as kept
// in the file "positions". It is never changed once it is made: copies share it.
type Checkpoint struct {
	Queue   uuid.UUID `json:"queue"`
	Epoch   uint64    `json:"epoch"`
	End     int64     `json:"end"`
	Newest  int64     `json:"newest,omitempty"`  // when the last record in front of End was received
	Written int64     `json:"written,omitempty"` // when it was made
	NextSeq uint64    `json:"nextSeq"`           // the first seq behind it
	// Lineage are the newest incarnations of the queue. Those of kept segments are in their headers, too.
	Lineage lineage.Lineage `json:"lineage,omitempty"`
	// Damaged are the epochs of kept segments that have bytes which cannot be read.
	Damaged []uint64 `json:"damaged,omitempty"`
	totals
	// Producers are each on a line of their own.
	Producers []storedProducer `json:"-"`
}

const (
	// PositionsFile is the name of the checkpoint.
	PositionsFile = "positions"
	// positionsVersion is the version that is written.
	positionsVersion = 2
	// positionsHeadFmt is its first line: the version, and the checksum of the rest.
	positionsHeadFmt = "docket positions %d crc32c %08x\n"
)

// WriteCheckpoint replaces the positions file: a reader finds the old
// one or the new one, never half of either. It writes in pieces: the file may be much
// larger than what it is made from.
func WriteCheckpoint(fsys disk.FS, dir string, c Checkpoint) error {
	err := disk.On(fsys, dir).Join(PositionsFile).ReplaceBy(func(f disk.File) error {
		body := &summedWriter{file: f, off: int64(len(positionsHead(0)))}
		lines := bufio.NewWriterSize(body, 64<<10)
		encoder := json.NewEncoder(lines)
		if err := encoder.Encode(&c); err != nil {
			return err
		}
		for i := range c.Producers {
			if err := encoder.Encode(&c.Producers[i]); err != nil {
				return err
			}
		}
		if err := lines.Flush(); err != nil {
			return err
		}
		_, err := f.WriteAt(positionsHead(body.crc), 0)
		return err
	})
	if err != nil {
		return fmt.Errorf("positions: write: %w", err)
	}
	return nil
}

func positionsHead(crc uint32) []byte {
	return fmt.Appendf(nil, positionsHeadFmt, positionsVersion, crc)
}

// summedWriter writes to a file from an offset on, and sums up what it writes.
type summedWriter struct {
	file disk.File
	off  int64
	crc  uint32
}

func (w *summedWriter) Write(b []byte) (int, error) {
	n, err := w.file.WriteAt(b, w.off)
	w.off += int64(n)
	w.crc = crc32.Update(w.crc, castagnoli, b[:n])
	return n, err
}

// ErrPositions says that the positions file is there but cannot be used.
var ErrPositions = errors.New("positions: checksum mismatch")

// readCheckpoint returns the kept checkpoint; ok is false when there is none. It fails
// with ErrPositions when the file is damaged, and with *fileversion.Error when it is
// whole and of another version. It holds no more of the file than it returns.
func readCheckpoint(fsys disk.FS, dir string) (c Checkpoint, ok bool, err error) {
	path := filepath.Join(dir, PositionsFile)
	f, err := fsys.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Checkpoint{}, false, nil
	}
	if err != nil {
		return Checkpoint{}, false, fmt.Errorf("positions: open: %w", err)
	}
	defer f.Close()
	p := &positionsReader{file: f}
	version, err := p.check()
	switch {
	case err != nil:
	case version == positionsVersion:
		c, err = p.decode()
	default:
		return Checkpoint{}, false, &fileversion.Error{File: path, Found: version, Known: positionsVersion}
	}
	if p.err != nil {
		return Checkpoint{}, false, fmt.Errorf("positions: read: %w", p.err)
	}
	if err != nil {
		return Checkpoint{}, false, ErrPositions
	}
	for _, i := range c.Lineage {
		if uuid.Validate(i.ID) != nil {
			return Checkpoint{}, false, ErrPositions
		}
	}
	for _, t := range c.Sources {
		if t == nil || t.Refused == nil || t.Lost == nil {
			return Checkpoint{}, false, ErrPositions
		}
	}
	return c, true, nil
}

// positionsReader reads a positions file, more than once.
type positionsReader struct {
	file disk.File
	off  int64
	body int64 // where what the checksum covers begins
	err  error // of the file
}

func (p *positionsReader) Read(b []byte) (int, error) {
	n, err := p.file.ReadAt(b, p.off)
	p.off += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		p.err = err
	}
	return n, err
}

// check returns the version of the file, and an error unless its checksum holds.
func (p *positionsReader) check() (version uint64, err error) {
	file := bufio.NewReader(p)
	head, err := file.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	p.body = int64(len(head))
	var want uint32
	if _, err := fmt.Sscanf(string(head), positionsHeadFmt, &version, &want); err != nil {
		return 0, err
	}
	body := crc32.New(castagnoli)
	if _, err := io.Copy(body, file); err != nil {
		return 0, err
	}
	if body.Sum32() != want {
		return 0, ErrPositions
	}
	return version, nil
}

// decode reads a checkpoint and the producers behind it.
func (p *positionsReader) decode() (Checkpoint, error) {
	p.off = p.body
	objects := json.NewDecoder(p)
	c := Checkpoint{totals: totals{Sources: map[string]*SourceTally{}}}
	if err := objects.Decode(&c); err != nil {
		return Checkpoint{}, err
	}
	for objects.More() {
		var stored storedProducer
		if err := objects.Decode(&stored); err != nil {
			return Checkpoint{}, err
		}
		c.Producers = append(c.Producers, stored)
	}
	return c, nil
}
