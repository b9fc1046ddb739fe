package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMain makes this program what it is in the processes that tests start: one of
// its commands, or the victim of a fault of a library.
func TestMain(m *testing.M) {
	var err error
	if child, ok := faultChildren[os.Getenv(childFault)]; ok {
		err = child(os.Args[1])
	} else if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-") {
		err = run(context.Background(), os.Args[1:], os.Stdout)
	} else {
		os.Exit(runTests(m))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// builtDocket is the docket that all tests measure.
var builtDocket string

func runTests(m *testing.M) (code int) {
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	builtDocket = filepath.Join(dir, "docket")
	return m.Run()
}
