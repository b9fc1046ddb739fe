package filesink

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/internal/signal"
	"github.com/docket-export/docket/sinks"
	"github.com/docket-export/docket/sinks/filesink/manifest"
)

// TestIdleFileIsFinished wants a file that nothing is added to to be finished when
// it is too old, not before, and only one that has records.
func TestIdleFileIsFinished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s := mustOpen(t, rotating(dir, 0), nil) // an hour
		time.Sleep(30 * time.Minute)
		mustSend(t, s, batch(queueA, 1, 1))
		time.Sleep(30 * time.Minute)
		mustSend(t, s, batch(queueA, 2, 2))
		time.Sleep(30*time.Minute - 1)
		synctest.Wait()
		if got := spans(t, dir); len(got) > 0 {
			t.Errorf("finished files %v before the hour is over, want none", got)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if got, want := spans(t, dir), []string{"1-2"}; !slices.Equal(got, want) {
			t.Errorf("finished files %v, want %v", got, want)
		}
		time.Sleep(10 * time.Hour)
		synctest.Wait()
		mustSend(t, s, batch(queueA, 3, 3))
		mustClose(t, s)

		time.Sleep(10 * time.Hour)
		mustOpen(t, rotating(dir, 0), nil) // too old since long ago
		synctest.Wait()
		if got, want := spans(t, dir), []string{"1-2", "3-3"}; !slices.Equal(got, want) {
			t.Errorf("finished files %v, want %v", got, want)
		}
		mustAudit(t, dir)
	})
}

// TestIdleFilesAreRemoved wants finished files to be removed when they are too old,
// though nothing is sent.
func TestIdleFilesAreRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		c := rotating(dir, 1)
		c.Retain.MaxAge = config.Duration(10 * time.Hour)
		s := mustOpen(t, c, nil)
		for seq := uint64(1); seq <= 3; seq++ {
			mustSend(t, s, batch(queueA, seq, seq)) // finishes the one before
			time.Sleep(30 * time.Minute)
		}
		synctest.Wait() // 1 finished after 30 minutes, 2 after 60, 3 after 120
		for _, step := range []struct {
			at   time.Duration
			want []string
		}{
			{10*time.Hour + 30*time.Minute - time.Second, []string{"1-1", "2-2", "3-3"}},
			{10*time.Hour + 30*time.Minute, []string{"2-2", "3-3"}},
			{11 * time.Hour, []string{"3-3"}},
			{13 * time.Hour, []string{"3-3"}}, // the newest stays
		} {
			time.Sleep(time.Until(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Add(step.at)))
			synctest.Wait()
			if got := spans(t, dir); !slices.Equal(got, step.want) {
				t.Errorf("after %s: finished files %v, want %v", step.at, got, step.want)
			}
		}
		mustAudit(t, dir)
	})
}

// TestJanitorFails wants a failure to be logged once, tried again, and its end to
// be logged.
func TestJanitorFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		var fail atomic.Bool
		var said bytes.Buffer
		e := sinks.Env{Name: "compliance", Log: slog.New(slog.NewTextHandler(&said, nil))}
		s, err := open(rotating(dir, 0), e, watched(dir, func(change, path string) error {
			if fail.Load() && change == "rename" {
				return &fs.PathError{Op: change, Path: path, Err: unix.EIO}
			}
			return nil
		}))
		if err != nil {
			t.Fatal(err)
		}
		defer mustClose(t, s)
		mustSend(t, s, batch(queueA, 1, 1))
		fail.Store(true)
		time.Sleep(time.Hour + 10*retryPause)
		synctest.Wait()
		if got := spans(t, dir); len(got) > 0 {
			t.Fatalf("finished files %v, want none as long as it fails", got)
		}
		fail.Store(false)
		time.Sleep(retryPause)
		synctest.Wait()
		if got, want := spans(t, dir), []string{"1-1"}; !slices.Equal(got, want) {
			t.Errorf("finished files %v, want %v", got, want)
		}
		// The first failure is of the file, the others of opening again.
		if n := strings.Count(said.String(), "cannot be finished or removed"); n != 2 {
			t.Errorf("%d failures logged, want 2:\n%s", n, said.String())
		}
		if n := strings.Count(said.String(), "finished and removed again"); n != 1 {
			t.Errorf("%d ends of the failure logged, want 1:\n%s", n, said.String())
		}
		mustAudit(t, dir)
	})
}

// TestTroubleOfTheJanitor wants a key that is gone to show as soon as a file is due, and an
// operator to have it tried at once.
func TestTroubleOfTheJanitor(t *testing.T) {
	dir, key := t.TempDir(), filepath.Join(t.TempDir(), "key.pem")
	writeKey(t, key)
	synctest.Test(t, func(t *testing.T) {
		c, e := rotating(dir, 0), env()
		c.Signature = &Signature{KeyFile: key}
		var asked signal.Signal
		var shown []string
		e.RetryNow = asked.Wait
		e.Trouble = func(err error, pause time.Duration) { shown = append(shown, fmt.Sprint(err, " ", pause)) }
		s, err := open(c, e, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer mustClose(t, s)
		mustSend(t, s, batch(queueA, 1, 1))
		remove(t, filepath.Dir(key), "key.pem")
		time.Sleep(time.Hour) // of the bubble's time
		synctest.Wait()
		if len(shown) != 1 || !strings.Contains(shown[0], key+": no such file") || !strings.HasSuffix(shown[0], " 1m0s") {
			t.Fatalf("got %q, want that the key is gone", shown)
		}
		for range 2 {
			asked.Broadcast()
			synctest.Wait()
		}
		if len(shown) != 3 || shown[2] != shown[0] {
			t.Errorf("got %q, want an attempt whenever an operator asks", shown)
		}
		writeKey(t, key)
		asked.Broadcast()
		synctest.Wait()
		if got, want := spans(t, dir), []string{"1-1"}; len(shown) != 4 || shown[3] != "<nil> 0s" || !slices.Equal(got, want) {
			t.Errorf("got %q and finished files %v, want an end of the trouble and %v", shown, got, want)
		}
	})
}

// TestCloseWhileDiskHangs wants Close to give up when its time is over, and a second one to close.
func TestCloseWhileDiskHangs(t *testing.T) {
	c := rotating(t.TempDir(), 0)
	c.Rotate.MaxAge = config.Duration(time.Millisecond)
	reached, release := make(chan struct{}), make(chan struct{})
	s, err := open(c, env(), watched(c.Directory, func(change, path string) error {
		if change == "rename" && manifest.IsFinished(filepath.Base(path)) {
			close(reached)
			<-release
		}
		return nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	mustSend(t, s, batch(queueA, 1, 1))
	<-reached
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Close(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("close: got %v, want the end of its time", err)
	}
	close(release)
	<-s.janitor.done
	if err := s.Close(context.Background()); err != nil {
		t.Errorf("a second close: %v", err)
	}
	mustClose(t, mustOpen(t, c, nil)) // the lock of the directory is free
}
