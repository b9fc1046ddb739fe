package gatekeeperexport

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docket-export/docket/client/clienttest"
)

func TestUnknownConnection(t *testing.T) {
	d := New(Options{})
	want := "docket connection other is not open"
	good := config(t, `{"address":"unix:///run/docket.sock"}`)
	for call, err := range map[string]error{
		"Publish":          d.Publish(t.Context(), "other", violation(1, "deny"), subject),
		"UpdateConnection": d.UpdateConnection(t.Context(), "other", good),
		"CloseConnection":  d.CloseConnection("other"),
		"PublishBatch":     d.PublishBatch(t.Context(), "other", []any{1, 2}, subject)[1],
	} {
		if err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", call, err, want)
		}
	}
	if errs := d.PublishBatch(t.Context(), "other", nil, subject); len(errs) != 0 {
		t.Errorf("got %v for a batch of nothing", errs)
	}
}

func TestBadConfig(t *testing.T) {
	d := New(Options{})
	bad := config(t, `{"adress":"x"}`)
	want := "docket connection audit-connection: config: unknown field \"adress\""
	if err := d.CreateConnection(t.Context(), name, bad); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
	if err := d.Publish(t.Context(), name, violation(1, "deny"), subject); err == nil {
		t.Error("a connection is open that could not be created")
	}
}

func TestUpdateConnection(t *testing.T) {
	bubble(t, func(t *testing.T, e *clienttest.Exporter, d *Driver) {
		update := func(members string) error {
			return d.UpdateConnection(t.Context(), name, config(t, `{"address":"unix:///run/docket.sock"`+members+`}`))
		}
		create(t, d, `,"timeout":"3s"`)
		if err := d.Publish(t.Context(), name, violation(0, "deny"), subject); err != nil {
			t.Fatal(err)
		}
		if err := update(`,"timeout":"3000ms"`); err != nil {
			t.Fatal(err)
		}
		if err := update(`,"timeout":"no time"`); err == nil {
			t.Error("got no error for a config that is wrong")
		}
		if err := d.Publish(t.Context(), name, violation(1, "deny"), subject); err != nil {
			t.Fatal(err)
		}
		if got := e.Connections(); got != 1 {
			t.Errorf("%d connections were made for one config, want 1", got)
		}

		// A record that is under way arrives over the old connection, one that
		// comes later does not wait for it.
		e.Hold()
		old := make(chan error, 1)
		go func() { old <- d.Publish(t.Context(), name, violation(2, "deny"), subject) }()
		synctest.Wait()
		updated := make(chan error, 1)
		go func() { updated <- update(`,"producer":"next"`) }()
		synctest.Wait()
		next := make(chan error, 1)
		go func() { next <- d.Publish(t.Context(), name, violation(3, "deny"), subject) }()
		synctest.Wait()
		if got := e.Held(); got != 2 {
			t.Fatalf("%d records are under way, want 2", got)
		}
		e.Release()
		if err := errors.Join(<-old, <-next, <-updated); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if got := e.Connected(); got != 1 {
			t.Errorf("there are %d connections after the update, want 1", got)
		}
		for n, line := range e.Lines() {
			producer := []string{"gatekeeper/", "gatekeeper/", "gatekeeper/", "next/"}[n]
			if line.Text != string(violation(n, "deny")) || !strings.HasPrefix(line.Producer, producer) {
				t.Errorf("record %d is %s by %s, want one by %s", n, line.Text, line.Producer, producer)
			}
		}
	})
}

// What a replaced connection has buffered is sent, or else told.
func TestReplacedConnection(t *testing.T) {
	for test, comesBack := range map[string]bool{"exporter comes back": true, "exporter stays away": false} {
		t.Run(test, func(t *testing.T) {
			bubble(t, func(t *testing.T, e *clienttest.Exporter, d *Driver) {
				var log bytes.Buffer
				d.log = slog.New(slog.NewTextHandler(&log, nil))
				e.Down()
				create(t, d, `,"mode":"Batch"`)
				for n := range 10 {
					if err := d.Publish(t.Context(), name, violation(n, "deny"), subject); err != nil {
						t.Fatal(err)
					}
				}
				if comesBack {
					time.AfterFunc(20*time.Second, e.Up)
				}
				create(t, d, `,"mode":"Batch","timeout":"1s"`) // as good as an update
				if stored, told := len(e.Lines()) == 10, strings.Contains(log.String(), "10 records are lost"); stored != comesBack || told == comesBack {
					t.Errorf("got %d records and the log %s", len(e.Lines()), log.String())
				}
			})
		})
	}
}

func TestCloseConnection(t *testing.T) {
	bubble(t, func(t *testing.T, e *clienttest.Exporter, d *Driver) {
		create(t, d, `,"mode":"Batch"`)
		for n := range 10 {
			if err := d.Publish(t.Context(), name, violation(n, "deny"), subject); err != nil {
				t.Fatal(err)
			}
		}
		if err := d.CloseConnection(name); err != nil {
			t.Error(err)
		}
		if got := len(e.Lines()); got != 10 {
			t.Errorf("got %d records when the connection was closed, want 10", got)
		}

		create(t, d, `,"mode":"Batch"`)
		e.Down()
		for n := range 10 {
			if err := d.Publish(t.Context(), name, violation(n, "deny"), subject); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		err := d.CloseConnection(name)
		checkError(t, err, notClosed)
		if err != nil && !strings.Contains(err.Error(), ": 10 records are lost: ") {
			t.Errorf("got %v, want 10 records in it", err)
		}
		if got := time.Since(began); got != 3*time.Second {
			t.Errorf("CloseConnection took %v, want 3s", got)
		}
		if err := d.Publish(t.Context(), name, violation(0, "deny"), subject); err == nil {
			t.Error("a connection that could not be closed in order is still open")
		}
	})
}

// slow is a violation that takes its time to be encoded.
type slow struct{ begun, end chan struct{} }

func (s slow) MarshalJSON() ([]byte, error) {
	close(s.begun)
	<-s.end
	return violation(1, "deny"), nil
}

// A connection closes when the calls under way have ended.
func TestCloseWaitsForCalls(t *testing.T) {
	bubble(t, func(t *testing.T, e *clienttest.Exporter, d *Driver) {
		create(t, d, "")
		data := slow{make(chan struct{}), make(chan struct{})}
		published, closed := make(chan error, 1), make(chan error, 1)
		go func() { published <- d.Publish(t.Context(), name, data, subject) }()
		<-data.begun
		go func() { closed <- d.CloseConnection(name) }()
		synctest.Wait()
		close(data.end)
		if err := errors.Join(<-published, <-closed); err != nil || len(e.Lines()) != 1 {
			t.Errorf("got %v and %d records, want the one that was under way", err, len(e.Lines()))
		}
	})
}

// Calls of every kind at once, over an exporter that breaks off: each record for
// which Publish returned nil is stored once.
func TestConcurrentCalls(t *testing.T) {
	bubble(t, func(t *testing.T, e *clienttest.Exporter, d *Driver) {
		create(t, d, "")
		var mu sync.Mutex
		acknowledged := make(map[string]bool)
		publish := func(n int) {
			errs := d.PublishBatch(t.Context(), name, []any{violation(n, "deny"), violation(-n, "warn")}, subject)
			mu.Lock()
			defer mu.Unlock()
			acknowledged[string(violation(n, "deny"))] = errs[0] == nil
			acknowledged[string(violation(-n, "warn"))] = errs[1] == nil
		}
		var wg sync.WaitGroup
		for worker := range 8 {
			wg.Go(func() {
				for i := range 50 {
					publish(1 + worker*50 + i)
				}
			})
		}
		wg.Go(func() {
			for i := range 20 {
				e.Down()
				e.Up()
				create(t, d, fmt.Sprintf(`,"producer":"p%d"`, i))
				time.Sleep(time.Second)
			}
		})
		wg.Wait()
		if err := d.CloseConnection(name); err != nil {
			t.Error(err)
		}
		stored := make(map[string]int)
		for _, line := range e.Lines() {
			stored[line.Text]++
		}
		yes := 0
		for text, ok := range acknowledged {
			if ok {
				yes++
			}
			if ok && stored[text] != 1 {
				t.Errorf("%s was acknowledged and is stored %d times", text, stored[text])
			}
		}
		if yes == 0 {
			t.Error("not one record was acknowledged")
		}
		t.Logf("%d of %d records acknowledged", yes, len(acknowledged))
	})
}
