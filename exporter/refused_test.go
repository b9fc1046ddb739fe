package exporter

import (
	"log/slog"
	"os"
	"testing"

	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/internal/testfull"
	"github.com/docket-export/docket/sources"
)

// A full disk leaves no empty files, and the log works again when there is room.
func TestRefusedLogOnAFullDisk(t *testing.T) {
	if !testfull.Alone(t) {
		return
	}
	dir := t.TempDir()
	log := &refusedLog{dir: disk.At(dir), log: slog.New(slog.DiscardHandler)}
	stop := testfull.Limit(t, 0)
	for range 50 {
		log.add([]refusedLine{{Reason: sources.InvalidJSON, text: []byte("x")}})
	}
	stop()
	if names, err := os.ReadDir(dir); err != nil || len(names) > 0 {
		t.Errorf("50 lines that could not be kept left %d files, %v", len(names), err)
	}
	log.add([]refusedLine{{Reason: sources.InvalidJSON, text: []byte("y")}})
	if err := log.close(); err != nil {
		t.Fatal(err)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 1 {
		t.Errorf("a disk that is well again has %d files, %v, want 1", len(names), err)
	}
}
