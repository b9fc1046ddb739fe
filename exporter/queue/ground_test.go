package queue

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/exporter/queue/state"
	"github.com/docket-export/docket/internal/disk"
)

// isLost waits until the queue says that its directory is lost.
func isLost(t *testing.T, q *Queue) {
	t.Helper()
	await.Until(t, "the queue says that its directory is lost", func() bool {
		_, lost := errors.AsType[*LostError](q.Stats().Err)
		return lost
	})
}

// neverSettled appends a record that must not become durable.
func neverSettled(t *testing.T, q *Queue) {
	t.Helper()
	err := q.Append(t.Context(), chunk(`{"lost":true}`), func() { t.Error("a record was settled in a directory that is lost") })
	if err != nil {
		t.Fatalf("Append: %v", err)
	}
}

// What is synced to a file without a name is safe nowhere: nothing is acknowledged that
// came after the removal, and nothing is written to what is at the path now.
func TestRemovedDirectory(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(t *testing.T, dir string){
		"removed":         func(t *testing.T, dir string) { must(t, os.RemoveAll(dir)) },
		"moved":           func(t *testing.T, dir string) { must(t, os.Rename(dir, dir+".away")) },
		"lock removed":    func(t *testing.T, dir string) { must(t, os.Remove(filepath.Join(dir, state.LockFile))) },
		"replaced":        func(t *testing.T, dir string) { must(t, os.RemoveAll(dir)); must(t, os.Mkdir(dir, 0o700)) },
		"another's queue": func(t *testing.T, dir string) { must(t, os.Rename(dir, dir+".away")); otherQueue(t, dir) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "queue")
			q := open(t, Options{Directory: dir})
			storeNumbered(t, q, 1, 3, 1)
			prepared(t, q)
			test(t, dir)
			before := filesOf(t, dir)
			isLost(t, q)
			for range 3 {
				neverSettled(t, q)
			}
			if err := q.Close(t.Context()); err == nil {
				t.Error("Close: got no error")
			}
			if name != "removed" && name != "lock removed" {
				equal(t, "files of whoever has the path now", filesOf(t, dir), before)
			}
		})
	}
}

func otherQueue(t *testing.T, dir string) {
	t.Helper()
	q := open(t, Options{Directory: dir})
	storeNumbered(t, q, 1, 3, 1)
	closeQueue(t, q)
}

// filesOf lists the files of dir with their sizes and times of change.
func filesOf(t *testing.T, dir string) (files []string) {
	t.Helper()
	entries, _ := os.ReadDir(dir) // perhaps it is not there
	for _, e := range entries {
		info, err := e.Info()
		must(t, err)
		files = append(files, fmt.Sprint(e.Name(), info.Size(), info.ModTime()))
	}
	return files
}

// No commit that follows the removal of the active segment is acknowledged there, also
// before the janitor looks: the next goes to a segment that a restart finds.
func TestRemovedSegment(t *testing.T) {
	dir := t.TempDir()
	q := open(t, Options{Directory: dir})
	cursorOf(t, q, "a")
	storeNumbered(t, q, 1, 3, 1)
	prepared(t, q)
	must(t, os.Remove(segmentFiles(t, dir)[0]))
	storeNumbered(t, q, 4, 5, 1)
	if err := q.Stats().Err; err != nil {
		t.Errorf("got %v after a commit that is safe, want none", err)
	}
	closeQueue(t, q)

	q = open(t, Options{Directory: dir})
	if got := q.LastSeq(); got != 5 {
		t.Fatalf("got %d as the last record after a restart, want 5: an acknowledged one is gone", got)
	}
	c := cursorOf(t, q, "a")
	equal(t, "records after a restart", drain(t, q, c), numbered(4, 5))
	if got := c.Account().Corrupt; got != 3 {
		t.Errorf("got %d records counted as corrupt, want the 3 that were removed", got)
	}
}

// A directory that comes back is the same one: what waited is stored.
func TestDirectoryComesBack(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "queue")
	q := open(t, Options{Directory: dir})
	storeNumbered(t, q, 1, 3, 1)
	prepared(t, q)
	must(t, os.Rename(dir, dir+".away"))
	isLost(t, q)
	settled := make(chan struct{})
	must(t, q.Append(t.Context(), chunk(`{"n":4}`), func() { close(settled) }))
	must(t, os.Rename(dir+".away", dir))
	<-settled
	await.Until(t, "the queue is well again", func() bool { return q.Stats().Err == nil })
	closeQueue(t, q)
	q = open(t, Options{Directory: dir})
	equal(t, "records after a restart", drain(t, q, cursorOf(t, q, "a")), numbered(1, 4))
}

// The queue says that it is well again also if nobody has sent anything meanwhile.
func TestIdleDirectoryComesBack(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "queue")
	q := open(t, Options{Directory: dir})
	prepared(t, q)
	must(t, os.Rename(dir, dir+".away"))
	isLost(t, q)
	must(t, os.Rename(dir+".away", dir))
	await.Until(t, "the queue is well again", func() bool { return q.Stats().Err == nil })
}

// The file cursors is written again when it is removed, or a restart would deliver
// everything again.
func TestRemovedCursors(t *testing.T) {
	dir := t.TempDir()
	q := open(t, Options{Directory: dir})
	storeNumbered(t, q, 1, 3, 1)
	c := cursorOf(t, q, "a")
	drain(t, q, c)
	must(t, c.Ack(3))
	path := filepath.Join(dir, state.CursorsFile)
	await.Until(t, "the cursors file is there", func() bool { _, err := os.Stat(path); return err == nil })
	must(t, os.Remove(path))
	await.Until(t, "the cursors file is there again", func() bool { _, err := os.Stat(path); return err == nil })
	killed(t, q)
	q = open(t, Options{Directory: dir})
	if got := cursorOf(t, q, "a").Account().Next; got != 4 {
		t.Errorf("got %d as the next record, want 4", got)
	}
	must(t, q.Close(context.Background()))
}

// openedForReading opens the file cursors as a disk does that is read-only until then.
type openedForReading struct{ disk.FS }

func (f openedForReading) Open(name string) (disk.File, error) {
	if filepath.Base(name) == state.CursorsFile {
		return f.OpenRead(name)
	}
	return f.FS.Open(name)
}

// A disk that was read-only when docket started, and no longer is, keeps what sinks have.
func TestCursorsOpenedForReading(t *testing.T) {
	opts := Options{Directory: t.TempDir()}
	q := open(t, opts)
	storeNumbered(t, q, 1, 3, 1)
	cursorOf(t, q, "a")
	closeQueue(t, q)

	opts.FS = openedForReading{disk.OS("")}
	q = open(t, opts)
	c := cursorOf(t, q, "a")
	drain(t, q, c)
	must(t, c.Ack(3))
	await.Until(t, "the account is on disk", func() bool { return q.Stats().Saved["a"].Next == 4 })
	killed(t, q)
	q = open(t, Options{Directory: opts.Directory})
	if got := cursorOf(t, q, "a").Account().Next; got != 4 {
		t.Errorf("got %d as the next record, want 4", got)
	}
	closeQueue(t, q)
}
