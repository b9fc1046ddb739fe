package queue

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"time"

	"github.com/docket-export/docket/exporter/queue/segment"
	"github.com/docket-export/docket/exporter/queue/state"
	"github.com/docket-export/docket/internal/disk"
)

// quarantine keeps what cannot be read: nothing of it is deleted. Open uses it, and then the
// janitor.
type quarantine struct {
	dir disk.Path // of the queue
	log *slog.Logger
}

// move puts a whole file into quarantine. That needs no space.
func (k *quarantine) move(name string, cause error) error {
	dir := k.dir.Join(state.QuarantineDir)
	if err := dir.MakeDir(); err != nil {
		return fmt.Errorf("set %s aside: %w", name, err)
	}
	aside := dir.Join(name + "." + time.Now().UTC().Format("20060102T150405.000000000Z"))
	err := k.dir.Join(name).Rename(aside)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // an attempt may have failed behind its rename
		return fmt.Errorf("set %s aside: %w", name, err)
	}
	if err == nil {
		k.log.Error("file of the queue is kept in quarantine", "file", name, "cause", cause)
	}
	return errors.Join(dir.SyncDir(), k.dir.SyncDir())
}

// copyTail copies a torn tail, the bytes from..to of a segment.
func (k *quarantine) copyTail(name segment.Name, file disk.File, from, to int64) error {
	content := make([]byte, to-from)
	n, err := file.ReadAt(content, from)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read %d bytes at %d: %w", to-from, from, err)
	}
	dir := k.dir.Join(state.QuarantineDir)
	if err := dir.MakeDir(); err != nil {
		return err
	}
	return dir.Join(fmt.Sprintf("%s.%d-%d", name, from, to)).Replace(content[:n])
}

// meetDamage notes that the bytes from..to of s cannot be read. Several readers meet the same
// damage. The segment moves to quarantine when it would be removed otherwise: until then what
// stands before and after the damage is delivered from it.
func (q *Queue) meetDamage(s *liveSegment, from, to int64, cause error) {
	if s.damaged.Swap(true) {
		return
	}
	q.opts.Log.Error("unreadable bytes in the queue: the segment moves to quarantine when every sink has passed it",
		"segment", s.String(), "from", from, "to", to, "cause", cause)
	q.mu.Lock()
	q.janitor.damageMet = true
	q.mu.Unlock()
	wake(q.dirty)
}

// reportLost records that damage has taken the records in r, which the ledger
// shows as corrupt. Several readers may meet the same damage: it counts once.
func (q *Queue) reportLost(r segment.SeqRange) {
	if r.To <= r.From {
		return
	}
	q.mu.Lock()
	isNew := q.state.AddLost(r)
	q.janitor.damageMet = q.janitor.damageMet || isNew
	q.mu.Unlock()
	if isNew {
		q.opts.Log.Error("records lost to damage", "firstSeq", r.From, "lastSeq", r.To-1)
		wake(q.dirty)
	}
}
