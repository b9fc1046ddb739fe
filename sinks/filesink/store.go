package filesink

import (
	"crypto/sha256"
	"encoding"
	"errors"
	"fmt"
	"hash"
	"io"
	"log/slog"
	"time"

	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/sinks"
	"github.com/docket-export/docket/sinks/filesink/manifest"
)

// bufferSize is what one write carries. More gains nothing, since a batch is
// synced once however many writes it takes, and costs memory.
const bufferSize = 256 << 10

// store is an open directory whose files agree: the position is durable, and the
// active file and the manifest have exactly the sizes that it names.
type store struct {
	dir     string
	config  Config // directory apart
	log     *slog.Logger
	place   disk.Path // of dir
	encoder *encoder

	lock      disk.Lock
	positions disk.File
	manifest  disk.File
	active    disk.File
	position  position // the one on disk
	gaps      manifest.Gaps
	sum       hash.Hash // of the active file up to where it was accepted

	end    int64 // where the next write goes
	broken bool  // files and position may disagree: to be closed and opened again

	ends   ends
	kept   []keptFile // finished files that no line of the manifest says are removed
	listed bool       // kept has been read
}

func (s *store) path(name string) string { return s.at(name).String() }

// at is where a file of the export lies. Nothing that has a name of docket's there is
// followed elsewhere: see package disk.
func (s *store) at(name string) disk.Path { return s.place.Join(name) }

// append writes p at the end of the active file, which must be of the configured form.
// Records and gaps are accepted and durable when it returns nil.
func (s *store) append(p portion) error {
	next := s.position
	next.last, next.lost = p.last(), false
	if len(p.items) > 0 {
		if err := s.write(p.items); err != nil {
			return errors.Join(err, s.cutBack())
		}
		next.file = s.grown(p.items, s.end-s.position.size)
		if err := s.saveSum(&next.sum); err != nil {
			return errors.Join(err, s.cutBack())
		}
	}
	return s.savePosition(next, p.gaps)
}

// grown is the active file with items, which have so many bytes in it.
func (s *store) grown(items []sinks.Item, bytes int64) file {
	f := s.position.file
	if f.size == 0 {
		f.form = s.config.Compress.form()
		f.first, f.firstReceived = items[0].Seq, items[0].Received
	}
	if !f.hasNews() && hasNews(items) {
		f.opened = time.Now()
	}
	f.size += bytes
	f.records += uint64(len(items))
	f.lastRecord, f.lastReceived = items[len(items)-1].Seq, items[len(items)-1].Received
	return f
}

// write makes items durable behind what was accepted of the active file.
func (s *store) write(items []sinks.Item) error {
	s.end = s.position.size
	if err := s.encoder.encode(items, io.MultiWriter(s.sum, s)); err != nil {
		return err
	}
	if err := s.active.Sync(); err != nil {
		s.broken = true // the end of this file: see "Failures" in the package comment
		return err
	}
	return nil
}

// Write appends p to the active file, for write.
func (s *store) Write(p []byte) (int, error) {
	n, err := s.active.WriteAt(p, s.end)
	s.end += int64(n)
	return n, err
}

// cutBack removes what is not accepted from the active file, and with it what
// may have filled the disk.
func (s *store) cutBack() error {
	err := s.active.Truncate(s.position.size)
	if err == nil {
		err = s.restoreSum()
	}
	if err != nil {
		s.broken = true
	}
	return err
}

// saveSum writes the state of the hash to state.
func (s *store) saveSum(state *hashState) error {
	b, err := s.sum.(encoding.BinaryAppender).AppendBinary(state[:0])
	if err == nil && len(b) != hashSize {
		err = fmt.Errorf("it has %d bytes, not %d", len(b), hashSize)
	}
	if err != nil {
		return fmt.Errorf("save the state of the hash: %w", err)
	}
	return nil
}

// restoreSum sets the hash to the state in the position.
func (s *store) restoreSum() (err error) {
	s.sum, err = s.position.hash()
	return err
}

// hash returns the SHA-256 of f, to be gone on with.
func (f *file) hash() (hash.Hash, error) {
	h := sha256.New()
	if f.size == 0 {
		return h, nil
	}
	if err := h.(encoding.BinaryUnmarshaler).UnmarshalBinary(f.sum[:]); err != nil {
		return nil, fmt.Errorf("restore the hash of the active file: %w", err)
	}
	return h, nil
}

// begin replaces the active file by an empty one.
func (s *store) begin() error {
	if s.active != nil {
		if err := s.active.Close(); err != nil {
			return err
		}
	}
	f, err := s.at(activeName(s.config.Compress.form())).Create()
	if err != nil {
		return err
	}
	s.active, s.sum = f, sha256.New()
	return s.place.SyncDir()
}

// intact says whether files and position agree as far as can be told: nothing
// failed, and nobody has moved, cut or replaced the files meanwhile.
func (s *store) intact() bool {
	return !s.broken && s.lock.Check() == nil && s.positions.Check() == nil &&
		unmoved(s.manifest, s.position.manifest) && unmoved(s.active, s.position.size)
}

// unmoved says whether f is still the file of its name, and has this size.
func unmoved(f disk.File, size int64) bool {
	ours, err := f.Size()
	return err == nil && ours == size && f.Check() == nil
}

// close gives up the files and, last of all, the lock.
func (s *store) close() error {
	var errs []error
	for _, f := range []io.Closer{s.active, s.manifest, s.positions, s.lock} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}
