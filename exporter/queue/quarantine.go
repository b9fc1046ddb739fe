package queue

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/docket-export/docket/exporter/queue/segment"
	"github.com/docket-export/docket/exporter/queue/state"
	"github.com/docket-export/docket/internal/disk"
)

// quarantine copies the bytes from..to of a segment aside, once: nothing that
// cannot be read is deleted with its segment. cause is why they cannot be read.
//
// It does not fail. A sink must be able to pass damage on a full disk, because
// that is what makes room again: when the copy cannot be made, the segment is
// marked to be moved to quarantine as a whole in place of being removed.
func (q *Queue) quarantine(s *liveSegment, file disk.File, from, to int64, cause error) {
	q.quarantining.Lock()
	defer q.quarantining.Unlock()
	isNew, err := q.copyAside(s.Name, file, from, to)
	if err != nil && !s.unreadable.Swap(true) {
		q.opts.Log.Error("unreadable bytes in the queue: they could not be copied, so their segment will be kept in quarantine",
			"segment", s.String(), "from", from, "to", to, "cause", cause, "error", err)
	}
	if isNew {
		q.opts.Log.Error("unreadable bytes in the queue: a copy is kept in quarantine",
			"segment", s.String(), "from", from, "to", to, "cause", cause)
	}
}

// copyAside returns whether the copy was not there before: several cursors meet
// the same damage.
func (q *Queue) copyAside(name segment.Name, file disk.File, from, to int64) (isNew bool, err error) {
	if err := q.at(state.QuarantineDir).MakeDir(); err != nil {
		return false, err
	}
	path := q.at(state.QuarantineDir, fmt.Sprintf("%s.%d-%d", name, from, to))
	if f, err := q.opts.FS.Open(path.String()); err == nil {
		return false, f.Close()
	}
	content := make([]byte, to-from)
	n, err := file.ReadAt(content, from)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("read %d bytes at %d: %w", to-from, from, err)
	}
	return true, path.Replace(content[:n])
}

// quarantineFile moves a whole file to quarantine, which needs no space.
func (q *Queue) quarantineFile(name string, cause error) error {
	q.quarantining.Lock()
	defer q.quarantining.Unlock()
	fsys := q.opts.FS
	if err := q.at(state.QuarantineDir).MakeDir(); err != nil {
		return fmt.Errorf("set %s aside: %w", name, err)
	}
	aside := q.path(state.QuarantineDir, name+"."+time.Now().UTC().Format("20060102T150405.000000000Z"))
	if err := fsys.Rename(q.path(name), aside); err != nil {
		return fmt.Errorf("set %s aside: %w", name, err)
	}
	q.opts.Log.Error("file of the queue is kept in quarantine", "file", name, "cause", cause)
	return errors.Join(fsys.SyncDir(q.path(state.QuarantineDir)), fsys.SyncDir(q.opts.Directory))
}

// reportLost records that damage has taken the records in r, which the ledger
// shows as corrupt. Several readers may meet the same damage: it counts once.
func (q *Queue) reportLost(r SeqRange) {
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
