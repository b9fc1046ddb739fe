package filesink

import (
	"bufio"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"

	"github.com/docket-export/docket/sinks"
)

// bufferSize is what one write carries. More gains nothing, since a batch is
// synced once however many writes it takes, and costs memory.
const bufferSize = 256 << 10

// store is an open directory whose files agree: the position is durable, and the
// active file has exactly the size that it names.
type store struct {
	dir  string
	log  *slog.Logger
	disk disk

	lock      *os.File
	positions *os.File
	active    *os.File
	position  position // the one on disk

	end    int64 // where the next write goes
	broken bool  // files and position may disagree: to be closed and opened again
}

func (s *store) path(name string) string { return filepath.Join(s.dir, name) }

// unseen returns the items that were not accepted before.
func (s *store) unseen(queue uuid.UUID, items []sinks.Item) []sinks.Item {
	if queue != s.position.queue {
		return items
	}
	for len(items) > 0 && items[0].Seq <= s.position.last {
		items = items[1:]
	}
	return items
}

// append writes items, which are not empty and all unseen, at the end of the
// active file through buffer. They are accepted and durable when it returns nil.
func (s *store) append(queue uuid.UUID, items []sinks.Item, buffer *bufio.Writer) error {
	if err := s.write(items, buffer); err != nil {
		return errors.Join(err, s.cutBack())
	}
	if err := s.disk.sync(s.active); err != nil {
		s.broken = true
		return errors.Join(err, s.cutBack())
	}
	next := s.position
	if next.size == 0 {
		next.first, next.opened = items[0].Seq, time.Now()
	}
	next.queue, next.last, next.size = queue, items[len(items)-1].Seq, s.end
	return s.savePosition(next)
}

func (s *store) write(items []sinks.Item, buffer *bufio.Writer) error {
	s.end = s.position.size
	buffer.Reset(s)
	for i := range items {
		// An error stays with the buffer, and Flush returns it.
		_, _ = buffer.Write(items[i].Record)
		_ = buffer.WriteByte('\n')
	}
	return buffer.Flush()
}

// Write appends p to the active file, for the buffer of write.
func (s *store) Write(p []byte) (int, error) {
	n, err := s.disk.write(s.active, p, s.end)
	s.end += int64(n)
	return n, err
}

// cutBack removes what is not accepted from the active file, and with it what
// may have filled the disk.
func (s *store) cutBack() error {
	err := s.disk.truncate(s.active, s.position.size)
	if err != nil {
		s.broken = true
	}
	return err
}

// savePosition makes p the durable position.
func (s *store) savePosition(p position) error {
	p.generation = s.position.generation + 1
	_, err := s.disk.write(s.positions, p.encode(make([]byte, 0, positionSlot)), p.offset())
	if err == nil {
		err = s.disk.sync(s.positions)
	}
	if err != nil {
		s.broken = true
		return err
	}
	s.position = p
	return nil
}

// finish gives the active file, which must hold records, its final name and
// begins a new one. The steps and why they come in this order: package comment.
func (s *store) finish() error {
	err := s.rename()
	if err == nil {
		err = s.begin()
	}
	if err != nil {
		s.broken = true
	}
	return err
}

func (s *store) rename() error {
	p := s.position
	if err := s.disk.sync(s.active); err != nil {
		return err
	}
	at, err := freeTime(s.dir, func(at time.Time) string { return finishedName(p.first, p.last, at) })
	if err != nil {
		return err
	}
	p.finishing = at
	if err := s.savePosition(p); err != nil {
		return err
	}
	name := p.finishedName()
	if err := s.disk.rename(s.path(activeName), s.path(name)); err != nil {
		return err
	}
	if err := s.disk.syncDirectory(s.dir); err != nil {
		return err
	}
	s.log.Info("finished file", "file", s.path(name), "bytes", p.size)
	return s.savePosition(p.withoutFile())
}

// begin replaces the active file by an empty one.
func (s *store) begin() error {
	if s.active != nil {
		if err := s.active.Close(); err != nil {
			return err
		}
	}
	f, err := s.disk.create(s.path(activeName))
	if err != nil {
		return err
	}
	s.active = f
	return s.disk.syncDirectory(s.dir)
}

// intact says whether files and position agree as far as can be told: nothing
// failed, and nobody has moved, cut or replaced the files meanwhile.
func (s *store) intact() bool {
	if s.broken || !unmoved(s.lock) || !unmoved(s.positions) || !unmoved(s.active) {
		return false
	}
	info, err := s.active.Stat()
	return err == nil && info.Size() == s.position.size
}

// unmoved says whether f is still the file of its name.
func unmoved(f *os.File) bool {
	ours, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(f.Name())
	return err == nil && os.SameFile(ours, named)
}

// close gives up the files and, last of all, the lock.
func (s *store) close() error {
	var errs []error
	for _, f := range []*os.File{s.active, s.positions, s.lock} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

// finishedName is the name that the active file is to get.
func (p position) finishedName() string { return finishedName(p.first, p.last, p.finishing) }

// withoutFile is p when the active file is empty.
func (p position) withoutFile() position {
	return position{generation: p.generation, queue: p.queue, last: p.last}
}
