//go:build soak

package cli

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

// Sinks that deliver nothing take no memory for the records that wait for them.
func TestIsolatedSinksTakeNoMemory(t *testing.T) {
	const total = 20000
	isolateSinks(t, total, func(pid int) {
		got := residentBytes(t, pid)
		t.Logf("%d MiB resident", got>>20)
		if got > 256<<20 { // the race detector takes most of it
			t.Errorf("%d MiB resident with %d records pending", got>>20, total)
		}
	})
}

func residentBytes(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(text))[1])
	if err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}
