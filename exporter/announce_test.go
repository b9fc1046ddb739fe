package exporter

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docket-export/docket/exporter/queue"
)

// TestAnnouncements wants no sink to wait for the queue, the newest announcement of each
// to be stored once the queue takes it, and a failure to be tried again and told once.
func TestAnnouncements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := make(chan struct{})
		failures := 2
		var stored []string
		var told strings.Builder
		a := newAnnouncements(func(ctx context.Context, record any) error {
			select {
			case <-full:
			case <-ctx.Done():
				return ctx.Err()
			}
			if failures > 0 {
				failures--
				return errors.New("disk: full of something")
			}
			stored = append(stored, record.(string))
			return nil
		}, newBackoff(defaultRetry()), slog.New(slog.NewTextHandler(&told, nil)))
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); a.run(ctx) }()

		one, other := a.of("one"), a.of("other")
		one("one 1")
		synctest.Wait() // it is on its way to a queue that is full
		if a.endIfIdle() {
			t.Error("ended with an announcement on its way")
		}
		for _, record := range []string{"one 2", "one 3"} {
			one(record)
		}
		other("other 1")
		close(full)
		time.Sleep(time.Hour)
		synctest.Wait()
		if !a.endIfIdle() {
			t.Error("not ended with all announcements stored")
		}
		one("one 4") // after the end: the sink announces it again at the next start
		time.Sleep(time.Hour)
		synctest.Wait()
		slices.Sort(stored)
		if want := []string{"one 3", "other 1"}; !slices.Equal(stored, want) {
			t.Errorf("stored %q, want %q", stored, want)
		}
		if n := strings.Count(told.String(), "cannot be stored"); n != 1 {
			t.Errorf("told %d times of the same failure, want once:\n%s", n, told.String())
		}
		stop()
		<-done
	})
}

// A sink's announcement becomes a record of docket's own, also where the queue was full:
// the delivery that makes room does not wait for it.
func TestAnnouncedIsStored(t *testing.T) {
	q, err := queue.Open(queue.Options{Directory: filepath.Join(t.TempDir(), "queue")})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close(context.Background())
	c, err := q.Cursor("test", false)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	own := ownRecords{q}
	a := newAnnouncements(own.put, newBackoff(defaultRetry()), slog.New(slog.DiscardHandler))
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); a.run(ctx) }()
	a.of("files")(map[string]string{"eventType": "docket.test"})
	records, err := c.Next(t.Context(), queue.Limits{Records: 1, Bytes: 1 << 20})
	if err != nil || len(records) != 1 || string(records[0].Data) != `{"eventType":"docket.test"}` || records[0].Source != ownSource {
		t.Errorf("got %+v, %v, want the one record of source %s", records, err, ownSource)
	}
	stop()
	<-done
}
