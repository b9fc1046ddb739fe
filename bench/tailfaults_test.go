package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nxadm/tail"
	"golang.org/x/sys/unix"
)

// Each test here passes as long as nxadm/tail has the fault that it is named after. One
// that fails with a new version is good news, and a reason to think again about the
// follower of log files. All use the library as its documentation advises: inotify,
// ReOpen, and whole lines, unless the fault is about these.

// A reader that is blocked, as by a full queue, while the log is rotated twice never sees
// the file in between: the library holds one file at a time. It finds the newest one at
// once, or, when it had not reached the end of the first before, at a later rotation.
func TestTailLosesAFileBehindABlockedReader(t *testing.T) {
	l := followLog(t, tail.Config{CompleteLines: true})
	l.write("first", 3)
	l.want("first 1")
	l.rotate()
	l.write("between", 3)
	l.rotate()
	l.write("last", 3)
	l.want("first 2", "first 3")
	for deadline := time.Now().Add(time.Minute); ; {
		select {
		case line := <-l.tail.Lines:
			if strings.HasPrefix(line.Text, "between") {
				t.Errorf("got line %q", line.Text)
			}
			return
		case <-time.After(100 * time.Millisecond):
			if time.Now().After(deadline) {
				t.Fatal("no line comes any more")
			}
			l.rotate()
			l.write("later", 3)
		}
	}
}

// A log that is cut to nothing and grows past its old length before the library looks
// again counts as the same: what lies before that length is lost.
func TestTailLosesTheStartOfATruncatedLog(t *testing.T) {
	l := followLog(t, tail.Config{CompleteLines: true})
	l.write("old", 3)
	l.want("old 1") // the others are read, and not taken yet
	if err := os.Truncate(l.path, 0); err != nil {
		t.Fatal(err)
	}
	l.write("new", 9)
	// Behind 18 bytes of "old", the start of which is in the middle of a pair of lines.
	l.want("old 2", "old 3", "new 4", "new 5")
}

// A line whose writer has not finished it is taken for one.
func TestTailTakesPartOfALine(t *testing.T) {
	l := followLog(t, tail.Config{})
	l.append(`{"decision":"de`)
	l.want(`{"decision":"de`)
}

// tailExitChild follows logs whose directory gives way to a file of that name. A tail that
// does not wait for changes yet ends in good order, so there are several.
func tailExitChild(dir string) error {
	for n := range 20 {
		if err := swapUnderTail(filepath.Join(dir, fmt.Sprint("logs-", n))); err != nil {
			return err
		}
	}
	return nil
}

func swapUnderTail(logs string) error {
	if err := os.Mkdir(logs, 0o700); err != nil {
		return err
	}
	path, file := filepath.Join(logs, "log"), logs+".file"
	for _, name := range []string{path, file} {
		if err := os.WriteFile(name, []byte("line\n"), 0o600); err != nil {
			return err
		}
	}
	followed, err := tail.TailFile(path, tail.Config{Follow: true, ReOpen: true, Poll: true, CompleteLines: true})
	if err != nil {
		return err
	}
	<-followed.Lines
	// In one step: a name that is missing for a moment is another case.
	if err := unix.Renameat2(unix.AT_FDCWD, file, unix.AT_FDCWD, logs, unix.RENAME_EXCHANGE); err != nil {
		return err
	}
	select {
	case <-followed.Lines:
	case <-time.After(time.Minute):
	}
	return nil
}

// An error of stat that is not "no such file" ends the process, not the tail.
func TestTailEndsTheProcess(t *testing.T) {
	if _, problems, err := runFaultChild(t, "tail exit", t.TempDir()); err == nil || !strings.Contains(problems, "not a directory") {
		t.Errorf("got %v and %q, want that the process has ended", err, problems)
	}
}

// followed is a log and the library that follows it. The channel of lines has no buffer,
// so who does not call want blocks the reader.
type followed struct {
	t    *testing.T
	path string
	tail *tail.Tail
	old  int // rotations
}

func followLog(t *testing.T, config tail.Config) *followed {
	t.Helper()
	l := &followed{t: t, path: filepath.Join(t.TempDir(), "log")}
	l.append("")
	config.Follow, config.ReOpen, config.Logger = true, true, tail.DiscardingLogger
	var err error
	if l.tail, err = tail.TailFile(l.path, config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		l.tail.Kill(nil)
		for range l.tail.Lines { // so that it sees it
		}
		if err := l.tail.Wait(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// write appends so many numbered lines at once.
func (l *followed) write(name string, lines int) {
	l.t.Helper()
	var text strings.Builder
	for n := range lines {
		fmt.Fprintf(&text, "%s %d\n", name, n+1)
	}
	l.append(text.String())
}

func (l *followed) append(text string) {
	l.t.Helper()
	f, err := os.OpenFile(l.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		l.t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		l.t.Fatal(err)
	}
}

func (l *followed) rotate() {
	l.t.Helper()
	l.old++
	if err := os.Rename(l.path, fmt.Sprint(l.path, ".", l.old)); err != nil {
		l.t.Fatal(err)
	}
}

// want takes as many lines as there are texts, and compares them.
func (l *followed) want(texts ...string) {
	l.t.Helper()
	for _, want := range texts {
		select {
		case line := <-l.tail.Lines:
			if line.Text != want {
				l.t.Fatalf("got line %q, want %q", line.Text, want)
			}
		case <-time.After(time.Minute):
			l.t.Fatalf("got no line, want %q", want)
		}
	}
}
