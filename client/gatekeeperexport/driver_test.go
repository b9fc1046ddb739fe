package gatekeeperexport

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docket-export/docket/client"
	"github.com/docket-export/docket/client/clienttest"
)

const (
	name    = "audit-connection"
	subject = "audit-channel"
)

// bubble runs test on fake time with an exporter in memory and a driver whose
// unix addresses all lead to it. Both are closed afterwards.
func bubble(t *testing.T, test func(*testing.T, *clienttest.Exporter, *Driver)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e := clienttest.New()
		defer e.Close()
		d := New(Options{Pod: "audit-7d9f"})
		d.open = func(c client.Config) (*client.Client, error) {
			c.Transports = map[string]client.Transport{
				"unix": func(string, *client.Config) (client.Dial, error) { return e.Dial, nil },
			}
			return client.New(c)
		}
		test(t, e, d)
		e.Release()
		e.Up()
		time.Sleep(10 * time.Second) // longer than a client waits before it connects again
		if _, err := d.use(name); err == nil {
			d.connections[name].calls.Done()
			if err := d.CloseConnection(name); err != nil {
				t.Error(err)
			}
		}
		for _, err := range e.Violations() {
			t.Error(err)
		}
	})
}

func create(t *testing.T, d *Driver, members string) {
	t.Helper()
	if err := d.CreateConnection(t.Context(), name, config(t, `{"address":"unix:///run/docket.sock"`+members+`}`)); err != nil {
		t.Fatal(err)
	}
}

// violation is a record that the exporter of these tests can be asked about.
func violation(n int, action string) json.RawMessage {
	return fmt.Appendf(nil, `{"eventType":"violation_audited","n":%d,"enforcementAction":"%s"}`, n, action)
}

func texts(e *clienttest.Exporter) (texts []string) {
	for _, l := range e.Lines() {
		texts = append(texts, l.Text)
	}
	return texts
}

// checkError reports an error that does not begin with begins and its colon: all
// that Gatekeeper shows of it.
func checkError(t *testing.T, err error, begins string) {
	t.Helper()
	if err == nil || !strings.HasPrefix(err.Error(), begins+": connection audit-connection") {
		t.Errorf("got error %v, want %q, a colon and the connection", err, begins)
	}
}

const (
	inTime    = "docket exporter did not acknowledge a record in time"
	inMemory  = "docket exporter is not acknowledging and a record waits in memory"
	wasLost   = "docket buffer is full and a record was lost"
	noRecord  = "docket cannot encode a record"
	notClosed = "docket connection was closed before all records had arrived"
)

func TestPublishWaitsForTheDisk(t *testing.T) {
	for _, mode := range []string{"", `,"mode":"BlockingStrict"`, `,"mode":"Blocking"`} {
		bubble(t, func(t *testing.T, e *clienttest.Exporter, d *Driver) {
			create(t, d, mode)
			e.Hold()
			result := make(chan error, 1)
			go func() { result <- d.Publish(t.Context(), name, violation(1, "deny"), subject) }()
			synctest.Wait()
			select {
			case err := <-result:
				t.Fatalf("mode %q: Publish returned %v before the record was stored", mode, err)
			default:
			}
			e.Release()
			if err := <-result; err != nil {
				t.Errorf("mode %q: %v", mode, err)
			}
			if got, want := texts(e), []string{string(violation(1, "deny"))}; !slices.Equal(got, want) {
				t.Errorf("mode %q: got %q, want %q", mode, got, want)
			}
			if got := e.Lines()[0].Producer; !strings.HasPrefix(got, "gatekeeper/audit-7d9f/") {
				t.Errorf("got producer %s", got)
			}
		})
	}
}

// The audit publishes with a context that never ends.
func TestPublishHasADeadline(t *testing.T) {
	for members, want := range map[string]time.Duration{"": 3 * time.Second, `,"timeout":"100ms"`: 100 * time.Millisecond} {
		bubble(t, func(t *testing.T, e *clienttest.Exporter, d *Driver) {
			e.Down()
			create(t, d, members)
			began := time.Now()
			err := d.Publish(context.Background(), name, violation(1, "deny"), subject)
			checkError(t, err, inTime)
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v, want an error of a deadline", err)
			}
			if got := time.Since(began); got != want {
				t.Errorf("Publish returned after %v, want %v", got, want)
			}
		})
	}
}

// A dead exporter costs an audit one timeout, and no record that the buffer has
// room for; afterwards nil means again what it meant before.
func TestStalledConnection(t *testing.T) {
	bubble(t, func(t *testing.T, e *clienttest.Exporter, d *Driver) {
		create(t, d, "")
		e.Down()
		began := time.Now()
		checkError(t, d.Publish(t.Context(), name, violation(0, "deny"), subject), inTime)
		for n := 1; n < 500; n++ {
			checkError(t, d.Publish(t.Context(), name, violation(n, "deny"), subject), inMemory)
		}
		if got := time.Since(began); got != 3*time.Second {
			t.Errorf("500 records took %v, want one timeout of 3s", got)
		}
		e.Up()
		if err := e.Wait(t.Context(), 500); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		e.Hold()
		result := make(chan error, 1)
		go func() { result <- d.Publish(t.Context(), name, violation(500, "deny"), subject) }()
		synctest.Wait()
		select {
		case err := <-result:
			t.Fatalf("Publish returned %v before the record was stored", err)
		default:
		}
		e.Release()
		if err := <-result; err != nil {
			t.Error(err)
		}
		for n, line := range e.Lines() {
			if want := string(violation(n, "deny")); line.Text != want {
				t.Fatalf("record %d is %s, want %s", n, line.Text, want)
			}
		}
	})
}

// The end of the caller's own time says nothing of the exporter.
func TestCallerGivesUp(t *testing.T) {
	bubble(t, func(t *testing.T, e *clienttest.Exporter, d *Driver) {
		create(t, d, "")
		e.Hold()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := d.Publish(ctx, name, violation(1, "deny"), subject)
		checkError(t, err, "docket did not export a record")
		if !errors.Is(err, context.DeadlineExceeded) || d.connections[name].stalled.Load() {
			t.Errorf("got %v and a stalled connection: %t", err, d.connections[name].stalled.Load())
		}
	})
}

func TestBatchModeBuffers(t *testing.T) {
	bubble(t, func(t *testing.T, e *clienttest.Exporter, d *Driver) {
		create(t, d, `,"mode":"Batch"`)
		e.Hold()
		began := time.Now()
		for n := range 100 {
			if err := d.Publish(t.Context(), name, violation(n, "warn"), subject); err != nil {
				t.Fatal(err)
			}
		}
		if got := time.Since(began); got != 0 {
			t.Errorf("100 records took %v in mode Batch", got)
		}
		// The end of the run is told only when the whole run has arrived.
		end := json.RawMessage(`{"id":"2026-01-05T10:04:00Z","message":"audit is completed"}`)
		checkError(t, d.Publish(t.Context(), name, end, subject), inTime)
		if got := time.Since(began); got != 3*time.Second {
			t.Errorf("the end of the run was waited for %v, want 3s", got)
		}
		checkError(t, d.Publish(t.Context(), name, end, subject), inMemory)
		if err := d.Publish(t.Context(), name, violation(100, "warn"), subject); err != nil {
			t.Errorf("a stalled connection no longer buffers in mode Batch: %v", err)
		}
		e.Release()
		synctest.Wait()
		if err := d.Publish(t.Context(), name, end, subject); err != nil {
			t.Error(err)
		}
		if got := len(e.Lines()); got != 104 {
			t.Errorf("got %d records, want 104", got)
		}
	})
}

// What the buffer has no room for goes by rank, and is told.
func TestFullBuffer(t *testing.T) {
	bubble(t, func(t *testing.T, e *clienttest.Exporter, d *Driver) {
		e.Down()
		create(t, d, `,"mode":"Batch","maxBufferedBytes":"64Ki"`)
		var lost error
		for n := 0; lost == nil; n++ {
			lost = d.Publish(t.Context(), name, violation(n, "dryrun"), subject)
		}
		checkError(t, lost, wasLost)
		start := json.RawMessage(`{"id":"x","message":"audit is started"}`)
		for _, more := range []json.RawMessage{start, violation(-1, "deny"), violation(-2, "warn"), violation(-3, "page")} {
			if err := d.Publish(t.Context(), name, more, subject); err != nil {
				t.Errorf("%s: %v", more, err)
			}
		}
		e.Up()
		if err := d.CloseConnection(name); err != nil {
			t.Fatal(err)
		}
		got := strings.Join(texts(e), "\n")
		for _, want := range []string{string(start), `"n":-1`, `"n":-2`, `"n":-3`, `{"eventType":"docket.loss",`} {
			if !strings.Contains(got, want) {
				t.Errorf("the exporter did not get %s", want)
			}
		}
	})
}

func TestPublishBatch(t *testing.T) {
	bubble(t, func(t *testing.T, e *clienttest.Exporter, d *Driver) {
		create(t, d, "")
		e.Hold()
		e.Refuse(func(l clienttest.Line) (reason, detail string) {
			if strings.Contains(l.Text, `"n":7,`) {
				return "TooLarge", "1 byte more than 1"
			}
			return "", ""
		})
		data := make([]any, 64)
		for i := range data {
			data[i] = violation(i, "deny")
		}
		data[3] = "no object"
		result := make(chan []error, 1)
		go func() { result <- d.PublishBatch(t.Context(), name, data, subject) }()
		synctest.Wait()
		if got := e.Held(); got != 63 {
			t.Fatalf("%d records were sent before the first was acknowledged, want 63", got)
		}
		e.Release()
		errs := <-result
		if len(errs) != 64 {
			t.Fatalf("got %d errors, want 64", len(errs))
		}
		for i, err := range errs {
			switch i {
			case 3:
				checkError(t, err, noRecord)
			case 7:
				checkError(t, err, "docket exporter refused a record as TooLarge")
			default:
				if err != nil {
					t.Errorf("record %d: %v", i, err)
				}
			}
		}
		want := slices.Delete(slices.Delete(data, 7, 8), 3, 4)
		for i, line := range e.Lines() {
			if i == len(want) || line.Text != string(want[i].(json.RawMessage)) {
				t.Fatalf("record %d is %s, want the others in their order", i+1, line.Text)
			}
		}
		if got := len(e.Lines()); got != len(want) {
			t.Errorf("got %d records, want %d", got, len(want))
		}
	})
}
