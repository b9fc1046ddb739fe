package queue

import (
	"errors"
	"fmt"
	"io"
	"time"
)

const quarantineDir = "quarantine"

// quarantine copies the bytes from..to of a segment aside, once: nothing that
// cannot be read is deleted with its segment. cause is why they cannot be read.
func (q *Queue) quarantine(name segmentName, file File, from, to int64, cause error) error {
	fsys := q.opts.FS
	if err := q.makeQuarantine(); err != nil {
		return err
	}
	path := q.path(quarantineDir, fmt.Sprintf("%s.%d-%d", name, from, to))
	if f, err := fsys.Open(path); err == nil {
		return f.Close() // another cursor met the same damage
	}
	content := make([]byte, to-from)
	if n, err := readFull(file, content, from); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("quarantine: read %d bytes at %d: %w", to-from, from, err)
	} else if n < len(content) {
		content = content[:n]
	}
	if err := replaceFile(fsys, path, content); err != nil {
		return fmt.Errorf("quarantine: %w", err)
	}
	q.opts.Log.Error("unreadable bytes in the queue: a copy is kept in quarantine",
		"segment", name.String(), "from", from, "to", to, "cause", cause)
	return nil
}

// setAside moves a whole file to quarantine.
func (q *Queue) setAside(name string, cause error) error {
	fsys := q.opts.FS
	if err := q.makeQuarantine(); err != nil {
		return err
	}
	aside := q.path(quarantineDir, name+"."+time.Now().UTC().Format("20060102T150405.000000000Z"))
	if err := fsys.Rename(q.path(name), aside); err != nil {
		return fmt.Errorf("set %s aside: %w", name, err)
	}
	q.opts.Log.Error("file of the queue cannot be used: it is kept in quarantine", "file", name, "cause", cause)
	return errors.Join(fsys.SyncDir(q.path(quarantineDir)), fsys.SyncDir(q.opts.Directory))
}

func (q *Queue) makeQuarantine() error {
	if err := q.opts.FS.MkdirAll(q.path(quarantineDir)); err != nil {
		return fmt.Errorf("quarantine: %w", err)
	}
	return nil
}

// reportLost records that damage has taken the records in r, which the ledger
// shows as corrupt. It is told by whoever meets the damage, and counts it once.
func (q *Queue) reportLost(r SeqRange) {
	if r.To <= r.From {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.state.addLost(r) {
		q.opts.Log.Error("records lost to damage", "firstSeq", r.From, "lastSeq", r.To-1)
	}
}
