package decisionlog_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"testing"
	"testing/slogtest"
	"time"

	"github.com/docket-export/docket/client/decisionlog"
	"github.com/docket-export/docket/decision"
)

// records keeps the lines of what is exported. A line is made at once, as the
// client makes it, so a record that cannot be written fails the test here.
type records struct {
	mu    sync.Mutex
	lines []string
	err   error // what Export returns
}

func (r *records) Export(_ context.Context, rec *decision.Record) error {
	line, err := rec.AppendLine(nil)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, string(bytes.TrimSuffix(line, []byte("\n"))))
	return r.err
}

// one returns the only line.
func (r *records) one(t *testing.T) string {
	t.Helper()
	if len(r.lines) != 1 {
		t.Fatalf("got %d records, want 1: %q", len(r.lines), r.lines)
	}
	return r.lines[0]
}

func (r *records) record(t *testing.T) decision.Record {
	t.Helper()
	var rec decision.Record
	if err := json.Unmarshal([]byte(r.one(t)), &rec); err != nil {
		t.Fatal(err)
	}
	return rec
}

// timeless is a handler that drops the time of log records.
type timeless struct{ slog.Handler }

func (h timeless) Handle(ctx context.Context, r slog.Record) error {
	r.Time = time.Time{}
	return h.Handler.Handle(ctx, r)
}

func (h timeless) WithAttrs(attrs []slog.Attr) slog.Handler {
	return timeless{h.Handler.WithAttrs(attrs)}
}

func (h timeless) WithGroup(name string) slog.Handler { return timeless{h.Handler.WithGroup(name)} }

func newLog() (*slog.Logger, *records) {
	var got records
	return slog.New(timeless{decisionlog.NewHandler(&got, nil)}), &got
}

// The suite of the standard library, for which details are the attributes.
func TestSlogtest(t *testing.T) {
	var got *records
	slogtest.Run(t, func(t *testing.T) slog.Handler {
		got = new(records)
		return decisionlog.NewHandler(got, nil)
	}, func(t *testing.T) map[string]any {
		rec := got.record(t)
		result := make(map[string]any)
		if len(rec.Details) > 0 {
			if err := json.Unmarshal(rec.Details, &result); err != nil {
				t.Fatal(err)
			}
		}
		result[slog.MessageKey] = rec.Message
		result[slog.LevelKey] = rec.Decision
		if !rec.Timestamp.IsZero() {
			result[slog.TimeKey] = rec.Timestamp
		}
		return result
	})
}

func TestLevels(t *testing.T) {
	tests := map[string]struct {
		level slog.Level
		attrs []any
		want  decision.Decision
	}{
		"error":             {slog.LevelError, nil, decision.Deny},
		"beyond error":      {slog.LevelError + 3, nil, decision.Deny},
		"warn":              {slog.LevelWarn, nil, decision.Warn},
		"between":           {slog.LevelWarn + 1, nil, decision.Warn},
		"info":              {slog.LevelInfo, nil, decision.Allow},
		"decision given":    {slog.LevelError, []any{"decision", "dryrun"}, decision.DryRun},
		"impossible given":  {slog.LevelError, []any{"decision", "Deny"}, decision.Deny},
		"decision in group": {slog.LevelWarn, []any{slog.Group("g", "decision", "deny")}, decision.Warn},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			log, got := newLog()
			log.Log(t.Context(), tt.level, "m", tt.attrs...)
			if got := got.record(t).Decision; got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestEnabled(t *testing.T) {
	var level slog.LevelVar
	h := decisionlog.NewHandler(new(records), &decisionlog.Options{Level: &level})
	level.Set(slog.LevelWarn)
	if h.Enabled(t.Context(), slog.LevelInfo) || !h.Enabled(t.Context(), slog.LevelWarn) {
		t.Error("the level is not that of the options")
	}
	level.Set(slog.LevelDebug)
	if !h.Enabled(t.Context(), slog.LevelDebug) {
		t.Error("a level that was moved is not seen")
	}
	if h := decisionlog.NewHandler(new(records), nil); h.Enabled(t.Context(), slog.LevelDebug) || !h.Enabled(t.Context(), slog.LevelInfo) {
		t.Error("the default level is not info")
	}
}

func TestOff(t *testing.T) {
	for name, off := range map[string]decisionlog.Exporter{"nil": nil, "nil client": (*records)(nil)} {
		t.Run(name, func(t *testing.T) {
			h := decisionlog.NewHandler(off, nil)
			log := slog.New(h).With("a", 1).WithGroup("g")
			if log.Enabled(t.Context(), slog.LevelError) {
				t.Error("got enabled")
			}
			allocs := testing.AllocsPerRun(100, func() { log.Error("m", "kind", "Pod") })
			if allocs != 0 {
				t.Errorf("a record costs %v allocations while logging is off", allocs)
			}
			if err := h.Handle(t.Context(), slog.Record{}); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestHandleReturnsTheErrorOfExport(t *testing.T) {
	want := errors.New("not durable")
	h := decisionlog.NewHandler(&records{err: want}, nil)
	if err := h.Handle(t.Context(), slog.Record{Message: "m"}); !errors.Is(err, want) {
		t.Errorf("got %v, want %v", err, want)
	}
}

// Loggers made of one another do not see each other's attributes, at the same
// time neither, and a record none of an earlier one.
func TestDerivedLoggers(t *testing.T) {
	log, got := newLog()
	base := log.With("a", 0, slog.Group("g", "x", 0), "kind", "base").WithGroup("g")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			derived := base.With("i", i).WithGroup("h")
			for range 100 {
				derived.Info("m", "j", i)
				derived.Info("m", "k", i)
			}
		})
	}
	wg.Wait()
	base.Info("m", "x", 1)
	base.WithGroup("h").Info("m", "l", 2)
	base.WithGroup("n").Info("m", "l", 3)
	base.Info("m")

	const group = `{"details":{"a":0,"g":{`
	const tail = `}},"kind":"base","message":"m","schemaVersion":1,"decision":"allow"}`
	want := map[string]int{
		group + `"x":1` + tail:             1,
		group + `"h":{"l":2},"x":0` + tail: 1,
		group + `"n":{"l":3},"x":0` + tail: 1,
		group + `"x":0` + tail:             1,
	}
	for i := range 8 {
		want[fmt.Sprintf(`%s"h":{"j":%d},"i":%d,"x":0%s`, group, i, i, tail)] = 100
		want[fmt.Sprintf(`%s"h":{"k":%d},"i":%d,"x":0%s`, group, i, i, tail)] = 100
	}
	counts := make(map[string]int)
	for _, line := range got.lines {
		counts[line]++
	}
	if !maps.Equal(counts, want) {
		t.Errorf("got  %v\nwant %v", counts, want)
	}
}

// A time that a record cannot hold does not stop it.
func TestTimeBeyondTheFormat(t *testing.T) {
	var got records
	h := decisionlog.NewHandler(&got, nil)
	r := slog.NewRecord(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), slog.LevelInfo, "m", 0)
	if err := h.Handle(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if got := got.record(t); !got.Timestamp.IsZero() || got.Message != "m" {
		t.Errorf("got %+v, want it without a timestamp", got)
	}
}
