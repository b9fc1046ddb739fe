package tailsource

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/docket-export/docket/sources"
	"github.com/docket-export/docket/sources/statefile"
	"github.com/docket-export/docket/sources/tailsource/follow"
)

const (
	// maxLogs bounds the files that are followed at a time: each may hold a long line. One with
	// nothing to read gives way to one that has something.
	maxLogs = 8
	// goneFor is how long a file must be missing to be gone for good: kubelet makes a link anew.
	goneFor = 5 * time.Second
	// idleFor is how long a file must have nothing to read before it gives way.
	idleFor = time.Second
	// maxRead bounds the files that are remembered as read after their names are gone.
	maxRead = 1024
)

// logs are what a path names: one file, the files that match a pattern, or those in the directory
// of a container. Each has a follower, a reader and a state of its own. A file that comes is
// read from its beginning, and one that goes to its end.
type logs struct {
	source *source
	in     sources.Intake
	report *report
	paths  paths
	claims *follow.Claims

	running map[string]*tailed
	stored  map[string]bool // paths with a state
	rested  map[string]rest // files that have given way, until they change
	read    []follow.Claim  // as it was saved
	waiting int             // files for which there was no place
	failed  chan error
	wg      sync.WaitGroup
}

// tailed is one file that is followed.
type tailed struct {
	path     string
	env      sources.Env
	follower *follow.Follower
	reader   *reader
	gone     time.Time // since when nothing leads to it; zero: something does
	retired  bool
	stop     context.CancelFunc
	ended    chan struct{}
}

// rest is how a file was when it gave way.
type rest struct {
	file os.FileInfo
	size int64
}

// errOther says that the path has become a directory, or a file.
var errOther = errors.New("the path names another kind of file now")

func newLogs(s *source, in sources.Intake, r *report, p paths) *logs {
	return &logs{
		source: s, in: in, report: r, paths: p, claims: follow.NewClaims(),
		running: make(map[string]*tailed), stored: make(map[string]bool), rested: make(map[string]rest), failed: make(chan error, maxLogs),
	}
}

// run follows the files until ctx is done, or one cannot be read on.
func (l *logs) run(ctx context.Context, ready func()) error {
	defer l.stopAll()
	if err := l.restore(); err != nil {
		return err
	}
	if err := l.look(ctx); err != nil {
		return err
	}
	ready()
	tick := time.NewTicker(l.source.poll)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case err := <-l.failed:
			if ctx.Err() != nil {
				return nil
			}
			return err
		case <-ctx.Done():
			return nil
		}
		if err := l.look(ctx); err != nil {
			return err
		}
	}
}

func (l *logs) stopAll() {
	for _, t := range l.running {
		t.stop()
	}
	l.wg.Wait()
	for _, t := range l.running {
		t.follower.Close()
	}
}

// look takes note of the files that there are now.
func (l *logs) look(ctx context.Context) error {
	if l.paths.isOther() {
		return errOther
	}
	found, err := l.paths.find()
	switch {
	case err != nil:
		l.report.Set(thePattern, fmt.Sprintf("cannot find all files of %s: let docket's user read the directories (%v)", l.paths.text, err))
	case len(found) == 0:
		l.report.Set(thePattern, fmt.Sprintf("no file matches %s: docket reads files as soon as they exist", l.paths.text))
	default:
		l.report.Set(thePattern, "")
	}
	now := time.Now()
	for path, t := range l.running {
		switch {
		case t.retired: // it ends, and is begun anew if it is there again
		case slices.Contains(found, path):
			t.gone = time.Time{}
		case t.gone.IsZero():
			t.gone = now
		}
	}
	for path := range l.stored { // something may be left to read
		if l.running[path] == nil && !slices.Contains(found, path) {
			found = append(found, path)
		}
	}
	l.letGo(now)
	l.waiting = 0
	for _, path := range found {
		if l.running[path] != nil || l.isAtRest(path) {
			continue
		}
		if len(l.running) >= maxLogs && !l.giveWay(now) {
			l.waiting++
			continue
		}
		if err := l.start(ctx, path); err != nil {
			return err
		}
	}
	text := ""
	if l.paths.isOne() {
		text = l.paths.nextLife()
	}
	if l.waiting > 0 {
		text = fmt.Sprintf("%d more files match %s, and docket reads %d at a time: narrow the pattern, or give each container a source of its own", l.waiting, l.paths.text, maxLogs)
	}
	l.report.Set(theLogs, text)
	return nil
}

// letGo ends the files that are gone and were read to their end.
func (l *logs) letGo(now time.Time) {
	for path, t := range l.running {
		if t.gone.IsZero() || now.Sub(t.gone) < goneFor || l.paths.isOne() {
			continue
		}
		t.retired = true
		t.follower.Retire()
		if n, _ := t.follower.Held(); n > 0 {
			continue // the queue is full, or lines still come
		}
		l.end(t)
		l.claims.Leave(t.follower, t.reader.state.Files)
		if l.save() == nil { // else it ends with the next look at its state
			l.forget(path, t.env)
		}
	}
}

// save keeps what was read of files that have no state any more.
func (l *logs) save() error {
	l.read = l.claims.Read(maxRead)
	return statefile.Save(l.source.env.StateDir.Join("logs", "read.json"), &readFiles{Version: stateVersion, Read: l.read})
}

// forget removes the state of a file that is gone. What stays of it is no harm.
func (l *logs) forget(path string, env sources.Env) {
	delete(l.stored, path)
	_ = statePath(env.StateDir).Remove()
	_ = env.StateDir.RemoveDir()
}

// giveWay ends a file that has nothing to read, and reports whether there was one.
func (l *logs) giveWay(now time.Time) bool {
	for path, t := range l.running {
		idle := t.reader.idle.Load()
		if idle == 0 || now.Sub(time.Unix(0, idle)) < idleFor || !t.gone.IsZero() {
			continue
		}
		file, err := os.Stat(path)
		if err != nil {
			continue
		}
		l.end(t)
		l.claims.Leave(t.follower, t.reader.state.Files)
		if f := t.reader.state.Active(); f != nil && f.Offset == file.Size() {
			l.rested[path] = rest{file, file.Size()}
		}
		return true
	}
	return false
}

// isAtRest reports whether a file has given way, and has not changed since.
func (l *logs) isAtRest(path string) bool {
	r, ok := l.rested[path]
	if !ok {
		return false
	}
	file, err := os.Stat(path)
	if err == nil && os.SameFile(file, r.file) && file.Size() == r.size {
		return true
	}
	delete(l.rested, path)
	return false
}

func (l *logs) end(t *tailed) {
	t.stop()
	<-t.ended
	t.follower.Close()
	delete(l.running, t.path)
	l.report.of(t.path).clear()
}

// start follows a file.
func (l *logs) start(ctx context.Context, path string) error {
	s := l.source
	t := &tailed{path: path, env: s.env, ended: make(chan struct{})}
	r, config := l.report, s.config
	config.Path = path
	if !l.paths.isOne() {
		t.env.StateDir = l.stateDir(path)
		r = l.report.of(path)
	}
	var read []follow.Contents
	for _, f := range l.read {
		if f.Path == path {
			read = append(read, f.Contents)
		}
	}
	known, err := loadState(t.env.StateDir, path, config.Format, s.env.Log, read...)
	if err != nil {
		return err
	}
	l.stored[path] = !l.paths.isOne()
	l.claims.Restore(path, known.Files...)
	t.follower = follow.New(follow.Options{
		Path: path, Poll: s.poll, Grace: s.grace, Known: known.History, Claims: l.claims, MayGo: !l.paths.isOne(), Report: r, Log: s.env.Log,
	})
	if !known.Followed { // from now on: a restart finds what has come since
		known.History = t.follower.History()
		if err := statefile.Save(statePath(t.env.StateDir), known); err != nil {
			t.follower.Close()
			return err
		}
	}
	t.reader = newReader(t.env, config, s.poll, l.in, t.follower, r, known)
	s.follower.Store(t.follower)
	var following context.Context
	following, t.stop = context.WithCancel(ctx)
	l.running[path] = t
	l.wg.Go(func() {
		defer close(t.ended)
		defer t.stop()
		var wg sync.WaitGroup
		wg.Go(func() { t.follower.Run(following) })
		err := t.reader.run(following)
		t.stop()
		wg.Wait()
		if err != nil {
			l.failed <- err
		}
	})
	return nil
}

// stateDir is where the state of one file of several is.
func (l *logs) stateDir(path string) sources.StateDir {
	sum := sha256.Sum256([]byte(path))
	return l.source.env.StateDir.Join("logs", hex.EncodeToString(sum[:8]))
}

// readFiles is the document about files that were read and have no state of their own.
type readFiles struct {
	Version int            `json:"version"`
	Read    []follow.Claim `json:"read"`
}

// restore takes over what is known of the files before a restart.
func (l *logs) restore() error {
	if l.paths.isOne() {
		return nil
	}
	dir := l.source.env.StateDir.Join("logs")
	var read readFiles
	_, err := statefile.Load(dir.Join("read.json"), stateVersion, &read)
	if damaged, ok := errors.AsType[*statefile.DamagedError](err); ok {
		l.source.env.Log.Error("the list of log files that were read is lost: docket may store their records again", "error", damaged)
	} else if err != nil {
		return err
	}
	l.read = read.Read
	for _, f := range l.read {
		l.claims.Restore(f.Path, f.Contents)
	}
	states, err := dir.Dirs()
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, name := range states {
		s := &state{}
		found, err := statefile.Load(statePath(dir.Join(name)), stateVersion, s)
		if _, damaged := errors.AsType[*statefile.DamagedError](err); err != nil && !damaged {
			return err
		}
		if found && err == nil && s.Format == l.source.config.Format && l.paths.isOf(s.Path) {
			l.stored[s.Path] = true
			l.claims.Restore(s.Path, s.Files...)
		}
	}
	return nil
}

// Subjects of a report.
const (
	theLogs    = "logs"
	thePattern = "pattern"
)

// hasPattern reports whether a path has characters of a pattern.
func hasPattern(path string) bool { return strings.ContainsAny(path, `*?[`) }
