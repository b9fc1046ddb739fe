package filesink

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/internal/testlog"
)

// The directory of an export that is removed, moved or replaced is noticed while nothing is
// sent, and the export goes on when there is one again.
func TestLostDirectoryIsNoticedWhileIdle(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	var log testlog.Buffer
	var trouble atomic.Pointer[string]
	e := env()
	e.Log = slog.New(slog.NewTextHandler(&log, nil))
	e.Trouble = func(err error, _ time.Duration) {
		if err == nil {
			trouble.Store(nil)
			return
		}
		text := err.Error()
		trouble.Store(&text)
	}
	s, err := open(rotating(dir, 1<<20), e, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer mustClose(t, s)
	mustSend(t, s, batch(queueA, 1, 3))
	if err := os.Rename(dir, dir+".moved"); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "trouble", func() bool {
		text := trouble.Load()
		return text != nil && strings.Contains(*text, "restore the directory")
	})
	if err := os.Rename(dir+".moved", dir); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the end of the trouble", func() bool { return trouble.Load() == nil })
	mustSend(t, s, batch(queueA, 4, 5))
	if got := exported(t, dir); len(got) != 5 {
		t.Errorf("got %d records, want 5", len(got))
	}
	if err := os.Rename(dir, dir+".moved"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "a word of the replacement", func() bool { return strings.Contains(log.String(), "the directory of the export was replaced") })
	mustSend(t, s, batch(queueA, 6, 7))
	if got := exported(t, dir); len(got) != 2 {
		t.Errorf("got %d records in the new directory, want 2", len(got))
	}
}
