package main

import (
	"context"
	"fmt"
	"os"
	"testing"
)

// TestMain makes this program what it is in the processes that tests start: a
// filler of queues, or the victim of a fault of tidwall/wal.
func TestMain(m *testing.M) {
	var err error
	if child, ok := walChildren[os.Getenv(walFault)]; ok {
		err = child(os.Args[1])
	} else if len(os.Args) > 1 && os.Args[1] == fillCommand {
		err = run(context.Background(), os.Args[1:])
	} else {
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}
