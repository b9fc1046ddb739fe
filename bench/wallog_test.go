package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidwall/wal"
)

const walRecordBytes = 900

// walRecord is unlike every other.
func walRecord(index uint64) []byte {
	r := fmt.Appendf(nil, "record %d ", index)
	return append(r, bytes.Repeat([]byte("."), walRecordBytes-len(r))...)
}

// makeWAL makes a log of n records and closes it. With opts nil all of them are
// in one segment.
func makeWAL(t *testing.T, opts *wal.Options, n uint64) (dir string) {
	t.Helper()
	dir = t.TempDir()
	log := openWAL(t, dir, opts)
	var batch wal.Batch
	for i := uint64(1); i <= n; i++ {
		batch.Write(i, walRecord(i))
	}
	if err := errors.Join(log.WriteBatch(&batch), log.Close()); err != nil {
		t.Fatal(err)
	}
	return dir
}

func openWAL(t *testing.T, dir string, opts *wal.Options) *wal.Log {
	t.Helper()
	log, err := wal.Open(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	return log
}

// firstSegment is the file that the log begins with.
func firstSegment(dir string) string { return filepath.Join(dir, fmt.Sprintf("%020d", 1)) }

// changeFile replaces the content of a file.
func changeFile(t *testing.T, name string, change func([]byte) []byte) {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, change(data), 0o600); err != nil {
		t.Fatal(err)
	}
}

// runFaultChild returns what the child has printed, and its error.
func runFaultChild(t *testing.T, name, dir string) (stdout, stderr string, err error) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var out, problems strings.Builder
	cmd := exec.CommandContext(t.Context(), self, dir)
	cmd.Env = append(os.Environ(), childFault+"="+name, "GORACE=halt_on_error=1")
	cmd.Stdout, cmd.Stderr = &out, &problems
	err = cmd.Run()
	return out.String(), problems.String(), err
}
