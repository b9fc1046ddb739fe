package main

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/docket-export/docket/bench/trial"
)

// A queue that a docket has used has a socket beside its files.
func TestDropCacheLeavesSocketsAlone(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	attempt(t, func(*trial.T) { dropCache(dir) })
}
