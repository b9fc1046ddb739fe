package exporter

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/sources"
)

// A link in the place of refused/ leads no refused line away: the log says its name.
func TestPlantedRefusedDirectoryIsNotFollowed(t *testing.T) {
	outside, queue := t.TempDir(), t.TempDir()
	link := filepath.Join(queue, "refused")
	if err := os.Symlink(outside, link); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	r := &refusedLog{dir: disk.At(queue).Join("refused"), log: slog.New(slog.NewTextHandler(&log, nil))}
	r.add("webhook", []refusedLine{{Source: "webhook", Reason: sources.InvalidJSON, text: []byte("canary")}})
	if err := r.close(); err != nil {
		t.Error(err)
	}
	if names, err := os.ReadDir(outside); err != nil || len(names) > 0 {
		t.Errorf("outside: got %v, %v", names, err)
	}
	if want := link + " is a symbolic link"; !strings.Contains(log.String(), want) {
		t.Errorf("the log has %q, want %q", log.String(), want)
	}
}
