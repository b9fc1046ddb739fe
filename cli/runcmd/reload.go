package runcmd

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/docket-export/docket/cli/internal/command"
	"github.com/docket-export/docket/exporter"
)

const (
	// lookEvery is how often the file is read. A changed file must be the same twice in a row:
	// an editor writes it in pieces.
	lookEvery = 250 * time.Millisecond
	// maxUnrest bounds the wait for a file that changes all the time.
	maxUnrest = 5 * time.Second
	// retryEvery is how often what could not be finished is tried again.
	retryEvery = 10 * time.Second
	// maxProblems is how many lines of problems /status and the log show.
	maxProblems = 20
)

// reloader makes what a configuration file says the configuration in force, whenever it
// changes. An invalid file changes nothing, and is reported.
type reloader struct {
	file     string
	readOnce bool // file is a pipe or the like, such as that of <(...) in a shell: it has no more to say
	kinds    exporter.Kinds
	apply    func(*exporter.Config) (waiting []string, err error) // see Exporter.Reload
	report   *exporter.ConfigReport
	log      *slog.Logger

	// These are owned by run.
	text       []byte // that was looked at last; nil: it could not be read, or is to be looked at again
	failed     string // why that is not in force; empty: it is
	unfinished bool   // a part of it is not in force yet
	tried      time.Time
	note       string // what was said of that
}

// run looks at the file whenever it may have changed, and at each hangup, until ctx is done.
func (r *reloader) run(ctx context.Context, hangups <-chan struct{}) {
	switch {
	case r.file == "":
		r.sayNothingToReload(ctx, hangups, "docket runs without a configuration file")
		return
	case r.readOnce:
		r.sayNothingToReload(ctx, hangups, r.file+" is not a regular file and cannot be read again")
		return
	}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var before []byte         // the text at the last look
	var unrestSince time.Time // zero: the text is the one that was looked at
	for {
		select {
		case <-tick.C:
			text, err := command.ReadConfigAgain(r.file)
			isCalm := bytes.Equal(text, before)
			before = text
			switch {
			case err == nil && bytes.Equal(text, r.text):
				unrestSince = time.Time{}
				if r.unfinished && time.Since(r.tried) >= retryEvery {
					r.look(text, nil)
				}
			case isCalm || !unrestSince.IsZero() && time.Since(unrestSince) >= maxUnrest:
				unrestSince = time.Time{}
				r.look(text, err)
			case unrestSince.IsZero():
				unrestSince = time.Now()
			}
		case <-hangups:
			r.hangup()
		case <-ctx.Done():
			return
		}
	}
}

// hangup looks at the file, and says again what is wrong with it.
func (r *reloader) hangup() {
	text, err := command.ReadConfigAgain(r.file)
	if err == nil && r.isInForce(text) {
		r.log.Info("SIGHUP: the configuration file has not changed", "file", r.file)
		return
	}
	r.text, r.failed = nil, ""
	r.look(text, err)
}

// sayNothingToReload answers hangups until ctx is done.
func (r *reloader) sayNothingToReload(ctx context.Context, hangups <-chan struct{}, why string) {
	for {
		select {
		case <-hangups:
			r.log.Info("SIGHUP: nothing to reload: " + why)
		case <-ctx.Done():
			return
		}
	}
}

// isInForce reports whether text is the configuration in force, with nothing left to do.
func (r *reloader) isInForce(text []byte) bool {
	return r.failed == "" && !r.unfinished && bytes.Equal(text, r.text)
}

// look makes text, which the file has now, the configuration in force, unless it was looked
// at before. err is why the file could not be read.
func (r *reloader) look(text []byte, err error) {
	if err == nil && r.text != nil && bytes.Equal(text, r.text) && !r.unfinished {
		return // an empty file is not nil
	}
	r.text = text
	var cfg *exporter.Config
	if err == nil {
		cfg, err = command.ParseConfig(r.kinds, r.file, text)
	}
	if err != nil {
		r.fail(err)
		return
	}
	r.tried = time.Now()
	waiting, err := r.apply(cfg)
	if errors.Is(err, exporter.ErrStopping) {
		return // which is no mistake in the file: the next start reads it
	}
	unfinished, isUnfinished := errors.AsType[*exporter.UnfinishedError](err)
	if err != nil && !isUnfinished {
		r.fail(err)
		return
	}
	again := r.unfinished
	r.failed, r.unfinished = "", isUnfinished
	var notes []string
	if len(waiting) > 0 {
		notes = append(notes, "restart docket for "+strings.Join(waiting, ", ")+": until then the old values apply")
	}
	if isUnfinished {
		notes = append(notes, unfinished.Error()+"; docket tries again")
	}
	note := strings.Join(notes, "; ")
	if again && note == r.note { // tried again in vain
		return
	}
	r.note = note
	if again {
		r.report.Rest(note)
	} else {
		r.report.Applied(time.Now(), note)
	}
	if note == "" {
		r.log.Info("configuration is in force", "file", r.file)
	} else {
		r.log.Warn("configuration is in force, but not all of it", "file", r.file, "reason", note)
	}
}

// fail reports that the file is not in force, once for each reason.
func (r *reloader) fail(err error) {
	text := firstProblems(err)
	if r.failed == text {
		return
	}
	r.failed, r.unfinished = text, false
	r.report.Failed(text)
	r.log.Error("configuration file is invalid: docket keeps the last valid configuration", "file", r.file, "error", text)
}

// firstProblems is the text of err, in bounds.
func firstProblems(err error) string {
	lines := slices.Collect(strings.Lines(err.Error()))
	if len(lines) > maxProblems {
		lines = append(lines[:maxProblems], "and more: run docket check to list all")
	}
	return strings.Join(lines, "")
}
