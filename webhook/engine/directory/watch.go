package directory

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// settle is how long after a change the files are read: editors and kubelet take several steps.
	settle = 100 * time.Millisecond
	// lookAgain is for file systems that tell of no changes, and for what could not be done.
	lookAgain = 30 * time.Second
)

// Run reads the files, and reads them again whenever they change, until ctx is done.
func (d *Directory) Run(ctx context.Context) {
	told := false
	late := func(err error) {
		if !told {
			d.config.Log.Warn("changes of files are noticed late", "within", lookAgain.String(), "error", err)
		}
		told = true
	}
	watcher, err := fsnotify.NewWatcher()
	watch := func(dir string) {
		if err := watcher.Add(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			late(err)
		}
	}
	if err != nil { // a node has few instances of inotify, and all pods share them
		late(err)
		watcher, watch = new(fsnotify.Watcher), func(string) {}
	} else {
		defer func() { _ = watcher.Close() }()
	}
	d.load(ctx, watch)
	again := time.NewTicker(lookAgain)
	defer again.Stop()
	var due <-chan time.Time // nil: nothing has changed
	for {
		select {
		case <-ctx.Done():
			return
		case <-watcher.Events:
		case err := <-watcher.Errors: // some events may be missing: all files are looked at
			d.config.Log.Debug("changes of files are missing", "error", err)
		case <-due:
			due = nil
			d.load(ctx, watch)
			continue
		case <-again.C:
			d.load(ctx, watch)
			continue
		}
		if due == nil {
			due = time.After(settle)
		}
	}
}
