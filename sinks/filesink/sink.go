package filesink

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/sinks"
	"github.com/docket-export/docket/sinks/filesink/manifest"
)

// sink implements sinks.Sink. A batch that Send has accepted is durable.
type sink struct {
	config  Config
	name    string
	log     *slog.Logger
	place   disk.Path // the directory
	encoder *encoder

	mu    sync.Mutex  // held by Send and by the janitor, for as long as they work
	store *store      // nil after a failure, and once closed; guarded by mu
	had   position    // of the store that was open last; guarded by mu
	queue sinks.Queue // of Resume; guarded by mu

	trouble  func(err error, pause time.Duration) // see sinks.Env
	retryNow func() <-chan struct{}               // see sinks.Env

	announce      func(record any) // nil: nobody wants checkpoints
	checkpointed  manifest.Hash    // the line that was told last; guarded by mu
	checkpointDue time.Time        // when it is told again; guarded by mu

	janitor *janitor
}

// open opens the sink on a file system; nil: the operating system's.
func open(c Config, env sinks.Env, fsys disk.FS) (*sink, error) {
	access, err := c.access()
	if err != nil {
		return nil, err
	}
	if fsys == nil {
		if fsys, err = disk.OSWith(c.Directory, access); err != nil {
			return nil, failure("share the directory", err)
		}
	}
	// A directory whose entry is lost takes every file in it along: it is synced.
	place := disk.On(fsys, c.Directory)
	if err := place.MakeDir(); err != nil {
		return nil, failure("make the directory", err)
	}
	e, err := newEncoder(c.Compress.form())
	if err != nil {
		return nil, failure("open", err)
	}
	s := &sink{
		config: c, name: env.Name, log: env.Log, place: place, encoder: e, announce: env.Announce,
		trouble: env.Trouble, retryNow: env.RetryNow,
	}
	if s.trouble == nil {
		s.trouble = func(error, time.Duration) {}
	}
	if s.retryNow == nil {
		s.retryNow = func() <-chan struct{} { return nil }
	}
	s.janitor = newJanitor(s)
	if err := s.reopen(); err != nil {
		return nil, failure("open", err)
	}
	_, err = s.removeOld()
	s.janitor.report(err)
	go s.janitor.run()
	return s, nil
}

// Resume implements sinks.Resuming.
func (s *sink) Resume(_ context.Context, queue sinks.Queue, decide sinks.Decide) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ready(); err != nil {
		return failure("open again", err)
	}
	has, err := s.store.lineOf(queue.Lineage)
	if err != nil {
		return failure("find its last record of the queue", err)
	}
	at := sinks.Position{Next: 1, Lost: s.store.position.lost}
	if has != nil {
		at.Next, at.Lineage = has.last+1, has.lineage
	}
	goOn, err := decide(at, has != nil)
	if err != nil {
		return err
	}
	s.queue = queue
	if err := s.turnTo(queue, has, goOn.Next-1, 0); err != nil {
		return failure("go on with the records of the queue", err)
	}
	return nil
}

// Send implements sinks.Sink. A done ctx is seen before the batch is written;
// from then on Send waits for the disk, usually a few milliseconds.
func (s *sink) Send(ctx context.Context, b sinks.Batch) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("file sink: not sent: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.janitor.look()
	err := s.accept(b)
	if isFull(err) && s.makeRoom() {
		err = s.accept(b)
	}
	return err
}

// accept makes durable what of b is not so already.
func (s *sink) accept(b sinks.Batch) error {
	if len(b.Items) == 0 && len(b.Gaps) == 0 {
		return nil
	}
	if err := s.ready(); err != nil {
		return failure("open again", err)
	}
	if err := s.recognize(b); err != nil {
		return failure("go on with the records of another queue", err)
	}
	rest, err := s.store.unseen(b)
	if err != nil {
		return failure("take a batch", err)
	}
	for !rest.empty() {
		var part portion
		part, rest = rest.split()
		if err := s.write(part); err != nil {
			return err
		}
	}
	return nil
}

// recognize makes sure that the position is about the queue of b. An incarnation of which Resume
// has not told is a queue of its own.
func (s *sink) recognize(b sinks.Batch) error {
	if s.store.position.lineage.Has(b.Queue) {
		return nil
	}
	queue := s.queue
	if !queue.Lineage.Has(b.Queue) {
		queue = sinks.Queue{ID: b.Queue, Lineage: sinks.Lineage{{ID: b.Queue, First: 1}}}
	}
	has, err := s.store.lineOf(queue.Lineage)
	if err != nil {
		return err
	}
	return s.turnTo(queue, has, 0, portion{b.Items, b.Gaps}.last())
}

// write appends p, to a new file where the active one has to be finished first.
func (s *sink) write(p portion) error {
	if s.store.due(p) {
		if err := s.finish(); err != nil {
			return failure("finish the active file", err)
		}
	}
	if err := s.store.append(p); err != nil {
		return failure("append a batch", err)
	}
	return nil
}

// finish finishes the active file and removes what is beyond the limits then. That
// a file cannot be removed is for the log: the export goes on.
func (s *sink) finish() error {
	if err := s.store.finish(); err != nil {
		return err
	}
	_, err := s.removeOld()
	if s.store.broken {
		return err
	}
	s.janitor.report(err)
	s.checkpoint()
	return nil
}

// removeOld removes finished files beyond the limits and says how many. Some may
// be removed although there is an error.
func (s *sink) removeOld() (removed int, err error) {
	removed, err = s.store.removeOld()
	if err != nil {
		err = failure("remove finished files", err)
	}
	return removed, err
}

// ready opens the store again if something has happened to it. Records of
// before then get no company in their file: see "Failures" in the package
// comment.
func (s *sink) ready() error {
	if s.store != nil && s.store.intact() {
		return nil
	}
	if err := s.reopen(); err != nil {
		return err
	}
	if s.store.position.size > 0 {
		return s.finish()
	}
	return nil
}

func (s *sink) reopen() error {
	moved := false
	if s.store != nil {
		moved = !s.store.broken && s.store.lock.Check() != nil
		// Whatever its files may still report, nothing is believed of them that
		// is not read again.
		_ = s.store.close()
		s.store, s.had = nil, s.store.position
	}
	st, err := openStore(s.config, s.log, s.place, s.encoder)
	if err != nil {
		return err
	}
	if err := st.follows(s.had); err != nil {
		return errors.Join(err, st.close())
	}
	s.store = st
	if moved {
		s.log.Warn("the directory of the export was replaced: docket continues in the one that is there now. The other has the records of before", "directory", s.config.Directory)
	}
	s.checkpoint() // a crash may have come between a line and its checkpoint
	return nil
}

// isFull says whether err is for want of room on the disk.
func isFull(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

// makeRoom says whether a full disk has more room now: a removal that was due may
// have failed for want of it.
func (s *sink) makeRoom() bool {
	if s.ready() != nil {
		return false
	}
	removed, err := s.removeOld()
	return err == nil && removed > 0
}

// Close implements sinks.Sink. The active file stays as it is.
func (s *sink) Close(ctx context.Context) error {
	if err := s.janitor.close(ctx); err != nil {
		return fmt.Errorf("file sink: close: finished files are being compressed or removed: %w", err)
	}
	if s.store == nil {
		return nil
	}
	err := s.store.close()
	s.store = nil
	if err != nil {
		return failure("close", err)
	}
	return nil
}
