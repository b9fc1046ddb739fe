package exporter

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/internal/testfull"
	"github.com/docket-export/docket/internal/testlog"
	"github.com/docket-export/docket/sources"
)

// A full disk leaves no empty files, and the log works again when there is room. It is said
// when that begins and when it is over, and not for each line.
func TestRefusedLogOnAFullDisk(t *testing.T) {
	if !testfull.Alone(t) {
		return
	}
	dir := t.TempDir()
	var said testlog.Buffer
	log := &refusedLog{dir: disk.At(dir), log: slog.New(slog.NewTextHandler(&said, nil))}
	stop := testfull.Limit(t, 0)
	for n := range 50 {
		log.add("webhook", []refusedLine{{Reason: sources.InvalidJSON, text: fmt.Append(nil, n)}})
	}
	stop()
	if names, err := os.ReadDir(dir); err != nil || len(names) > 0 {
		t.Errorf("50 lines that could not be kept left %d files, %v", len(names), err)
	}
	log.add("webhook", []refusedLine{{Reason: sources.InvalidJSON, text: []byte("y")}})
	if lines := strings.Count(said.String(), "\n"); lines != 2 {
		t.Errorf("got %d lines of the log, want 2:\n%s", lines, said.String())
	}
	if err := log.close(); err != nil {
		t.Fatal(err)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 1 {
		t.Errorf("a disk that is well again has %d files, %v, want 1", len(names), err)
	}
}
