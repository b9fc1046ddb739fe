package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestMain makes this program what it is in the processes that tests start: one of
// its commands, or a peer that is known to be good or bad.
func TestMain(m *testing.M) {
	if len(os.Args) < 2 || strings.HasPrefix(os.Args[1], "-") {
		os.Exit(m.Run())
	}
	var err error
	if os.Args[1] == standInCommand {
		err = standInMain(os.Args[2:])
	} else {
		err = run(context.Background(), os.Args[1:], os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}
