package runcmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/cli/builtin"
	"github.com/docket-export/docket/cli/internal/command"
	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/internal/testlog"
)

const goodFile = "apiVersion: docket.dev/v1alpha1\nkind: Exporter\nsources: [{name: s, unix: {path: s}}]\nqueue: {directory: q}\nsinks: [{name: a, stdout: {}}]\n"

// However often the file is looked at, and tried again, the log has a line for each change.
func TestConfigurationInTheLog(t *testing.T) {
	var log testlog.Buffer
	var applied error
	r := &reloader{
		file: "docket.yaml", kinds: builtin.Kinds(), report: exporter.NewConfigReport("docket.yaml", ""),
		apply: func(*exporter.Config) ([]string, error) { return nil, applied }, log: slog.New(slog.NewTextHandler(&log, nil)),
	}
	for _, step := range []struct {
		text    string
		err     error
		applied error
		want    string
	}{
		{text: goodFile, want: "in force"},
		{text: "kind: [", want: "is invalid"},
		{text: "kind: Exporter\n", want: "is invalid"},
		{err: errors.New("no such file"), want: "is invalid"},
		{text: goodFile + "# 2\n", applied: &exporter.UnfinishedError{Parts: []string{"sink a is as it was"}}, want: "but not all of it"},
		{text: goodFile + "# 2\n", applied: &exporter.UnfinishedError{Parts: []string{"sink b is as it was"}}, want: "but not all of it"},
		{text: goodFile + "# 2\n", want: "is in force"},
	} {
		before := len(log.String())
		applied = step.applied
		for range 60 {
			r.look([]byte(step.text), step.err)
		}
		got := log.String()[before:]
		if strings.Count(got, "\n") != 1 || !strings.Contains(got, step.want) {
			t.Errorf("%s: got\n%s\nwant one line with %q", fmt.Sprintf("%.20q, %v, %v", step.text, step.err, step.applied), got, step.want)
		}
	}
}

// What has taken the place of the file neither blocks the reload nor fills the memory.
func TestSomethingElseInPlaceOfTheFile(t *testing.T) {
	for name, tt := range map[string]struct {
		plant func(path string) error
		want  string
	}{
		"pipe":      {func(path string) error { return unix.Mkfifo(path, 0o600) }, "is not a regular file"},
		"directory": {func(path string) error { return os.Mkdir(path, 0o700) }, "is not a regular file"},
		"huge": {func(path string) error {
			return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 1<<40))
		}, "is larger than 4Mi"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "docket.yaml")
			if err := tt.plant(file); err != nil {
				t.Fatal(err)
			}
			text, err := command.ReadConfigAgain(file)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %d bytes, %v; want %q", len(text), err, tt.want)
			}
		})
	}
}

// SIGHUP says what is wrong with the file, also when it is empty, and says it again.
func TestHangupOverAnEmptyFile(t *testing.T) {
	var log testlog.Buffer
	r := &reloader{
		file: filepath.Join(t.TempDir(), "docket.yaml"), kinds: builtin.Kinds(), report: exporter.NewConfigReport("docket.yaml", ""),
		text: []byte(goodFile), log: slog.New(slog.NewTextHandler(&log, nil)),
	}
	if err := os.WriteFile(r.file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= 2; n++ {
		r.hangup()
		if got := strings.Count(log.String(), "the document is empty"); got != n || r.failed == "" {
			t.Errorf("after %d SIGHUPs: got the log\n%s\nwant as many complaints", n, log.String())
		}
	}
}

// A configuration that came through a pipe, as from <(...) in a shell, has no more to say.
func TestPipeIsReadOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pipe := filepath.Join(t.TempDir(), "pipe")
		if err := unix.Mkfifo(pipe, 0o600); err != nil {
			t.Fatal(err)
		}
		var log testlog.Buffer
		r := &reloader{file: pipe, readOnce: true, report: exporter.NewConfigReport(pipe, ""), log: slog.New(slog.NewTextHandler(&log, nil))}
		ctx, stop := context.WithCancel(t.Context())
		hangups, ended := make(chan struct{}), make(chan struct{})
		go func() { r.run(ctx, hangups); close(ended) }()
		time.Sleep(3 * retryEvery)
		hangups <- struct{}{}
		stop()
		<-ended
		if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "nothing to reload") {
			t.Errorf("got the log\n%s\nwant one line that there is nothing to reload", got)
		}
	})
}

// A file that changes during a stop has no mistake.
func TestReloadDuringAStopIsNoFailure(t *testing.T) {
	var log testlog.Buffer
	r := &reloader{
		file: "docket.yaml", kinds: builtin.Kinds(), report: exporter.NewConfigReport("docket.yaml", ""),
		apply: func(*exporter.Config) ([]string, error) { return nil, exporter.ErrStopping }, log: slog.New(slog.NewTextHandler(&log, nil)),
	}
	r.look([]byte(goodFile), nil)
	if log.String() != "" || r.failed != "" {
		t.Errorf("got %q, and the log\n%s\nwant neither", r.failed, &log)
	}
}
