package exporter

import (
	"bytes"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/sources"
)

// fullDiskDir tells this program, run again by its own test, where the refused
// lines go.
const fullDiskDir = "DOCKET_TEST_FULL_DISK_DIR"

// A full disk leaves no empty files, and the log works again when there is room.
// The limit that stands for the full disk holds for a whole process, so the test
// runs in one of its own: this one has files to write meanwhile.
func TestRefusedLogOnAFullDisk(t *testing.T) {
	if dir := os.Getenv(fullDiskDir); dir != "" {
		refuseOnAFullDisk(t, dir)
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestRefusedLogOnAFullDisk$", "-test.v")
	cmd.Env = append(os.Environ(), fullDiskDir+"="+t.TempDir())
	if out, err := cmd.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("--- PASS: "+t.Name())) {
		t.Errorf("in a process of its own: %v\n%s", err, out)
	}
}

func refuseOnAFullDisk(t *testing.T, dir string) {
	log := &refusedLog{dir: disk.At(dir), log: slog.New(slog.DiscardHandler)}
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	signal.Ignore(unix.SIGXFSZ) // then a write beyond the limit is an error, as on a full disk
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 0, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	for range 50 {
		log.add([]refusedLine{{Reason: sources.InvalidJSON, text: []byte("x")}})
	}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
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
