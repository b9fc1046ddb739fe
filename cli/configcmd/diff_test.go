package configcmd

import (
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/cli/builtin"
	"github.com/docket-export/docket/cli/internal/command"
	"github.com/docket-export/docket/sinks"
	"github.com/docket-export/docket/sinks/filesink"
)

// A diff counts the files that a sink deletes, if it is one that starts.
func TestDeletions(t *testing.T) {
	t.Chdir(t.TempDir())
	kinds := builtin.Kinds()
	text := func(retain string) string {
		return "apiVersion: docket.dev/v1alpha1\nkind: Exporter\nqueue: {directory: queue}\nsources:\n- name: local\n  unix: {path: docket.sock}\n" +
			"sinks:\n- name: a\n  file: {directory: a, rotate: {maxBytes: 1}" + retain + "}\n"
	}
	fill(t, "a", 4) // three files are finished
	for retain, want := range map[string][]string{
		"":                        nil,
		", retain: {maxFiles: 3}": nil,
		", retain: {maxFiles: 1}": {"delete 2 finished files (26 B) of sink a: beyond its retain"},
	} {
		cfg, err := command.ParseConfig(kinds, "docket.yaml", []byte(text(retain)))
		if err != nil {
			t.Fatal(err)
		}
		r, err := diff(cfg, kinds)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.lines()[1:]; !slices.Equal(got, want) {
			t.Errorf("with %q: got %q, want %q", retain, got, want)
		}
		for i := range r.Changes {
			r.Changes[i].Action = "Keep"
		}
		if got := deletions(r.Changes, cfg); got != nil {
			t.Errorf("with %q and a sink that goes on: got %v", retain, got)
		}
	}

	if err := os.Rename("a", "b"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("a", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := command.ParseConfig(kinds, "docket.yaml", []byte(text(", retain: {maxFiles: 1}")))
	if err != nil {
		t.Fatal(err)
	}
	r, err := diff(cfg, kinds)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := r.lines()[1], "sink a: cannot count the files that its retain deletes: file sink: "; !strings.HasPrefix(got, want) {
		t.Errorf("a file in place of the directory: got %q, want %q", got, want)
	}
}

// fill writes an export of so many records, each in a file of its own.
func fill(t *testing.T, dir string, records uint64) {
	t.Helper()
	c := &filesink.Config{Directory: dir, Rotate: filesink.Rotate{MaxBytes: 1}}
	s, err := c.Open(t.Context(), sinks.Env{Name: "a", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	for seq := uint64(1); seq <= records; seq++ {
		b := sinks.Batch{Queue: "6ba7b810-9dad-11d1-80b4-00c04fd430c8", Items: []sinks.Item{{Seq: seq, Received: time.Now().UTC(), Record: []byte(`{"msg":"no"}`)}}}
		if err := s.Send(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}
