package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What compiles on one platform alone is found, with its place.
func TestWhatAPlatformDoesNotTakeIsFound(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.com/x\n",
		"x.go":   "package x\n\nimport \"syscall\"\n\nfunc size(s syscall.Statfs_t) int64 { return int64(s.Blocks) * s.Bsize }\n\nvar _ = size\n",
		"big.go": "package x\n\nfunc big() int { return 1 << 40 }\n\nvar _ = big\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := check(dir, "./...", "linux/amd64"); err != nil {
		t.Errorf("linux/amd64: got %v", err)
	}
	err := check(dir, "./...", "linux/386")
	for _, want := range []string{"x.go:5:46: invalid operation", "big.go:3:25: cannot use 1 << 40"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("linux/386: got %v, want %q in it", err, want)
		}
	}
}
