package queue

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/docket-export/docket/exporter/queue/segment"
	"github.com/docket-export/docket/exporter/queue/state"
	"github.com/docket-export/docket/internal/disk"
)

// quarantine keeps what cannot be read: nothing of it is deleted.
type quarantine struct {
	mu  sync.Mutex // held while something is put into it
	fs  disk.FS
	dir disk.Path // of the queue
	log *slog.Logger
}

// bytes copies the bytes from..to of a segment aside, once. cause is why they cannot be
// read.
//
// It does not fail. A sink must be able to pass damage on a full disk, because
// that is what makes room again: when the copy cannot be made, the segment is
// marked to be moved to quarantine as a whole instead of being removed.
func (k *quarantine) bytes(s *liveSegment, file disk.File, from, to int64, cause error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	isNew, err := k.copy(s.Name, file, from, to)
	if err != nil && !s.unreadable.Swap(true) {
		k.log.Error("unreadable bytes in the queue cannot be copied: docket will keep their segment in quarantine",
			"segment", s.String(), "from", from, "to", to, "cause", cause, "error", err)
	}
	if isNew {
		k.log.Error("unreadable bytes in the queue: a copy is kept in quarantine",
			"segment", s.String(), "from", from, "to", to, "cause", cause)
	}
}

// copy returns whether the copy was not there before: several cursors meet
// the same damage.
func (k *quarantine) copy(name segment.Name, file disk.File, from, to int64) (isNew bool, err error) {
	dir := k.dir.Join(state.QuarantineDir)
	if err := dir.MakeDir(); err != nil {
		return false, err
	}
	path := dir.Join(fmt.Sprintf("%s.%d-%d", name, from, to))
	if f, err := k.fs.Open(path.String()); err == nil {
		return false, f.Close()
	}
	content := make([]byte, to-from)
	n, err := file.ReadAt(content, from)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("read %d bytes at %d: %w", to-from, from, err)
	}
	return true, path.Replace(content[:n])
}

// file moves a whole file to quarantine, which needs no space.
func (k *quarantine) file(name string, cause error) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	dir := k.dir.Join(state.QuarantineDir)
	if err := dir.MakeDir(); err != nil {
		return fmt.Errorf("set %s aside: %w", name, err)
	}
	aside := dir.Join(name + "." + time.Now().UTC().Format("20060102T150405.000000000Z"))
	if err := k.dir.Join(name).Rename(aside); err != nil {
		return fmt.Errorf("set %s aside: %w", name, err)
	}
	k.log.Error("file of the queue is kept in quarantine", "file", name, "cause", cause)
	return errors.Join(dir.SyncDir(), k.dir.SyncDir())
}

// reportLost records that damage has taken the records in r, which the ledger
// shows as corrupt. Several readers may meet the same damage: it counts once.
func (q *Queue) reportLost(r segment.SeqRange) {
	if r.To <= r.From {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.state.AddLost(r) {
		q.opts.Log.Error("records lost to damage", "firstSeq", r.From, "lastSeq", r.To-1)
		q.janitor.lostChanged = true
		wake(q.dirty)
	}
}
