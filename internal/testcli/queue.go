// Package testcli makes what tests of several packages of the command line need.
package testcli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/docket-export/docket/exporter/queue"
)

// DamagedQueue makes a queue of 6 records, each in a frame of its own, and flips a bit in
// the record with the text damage. Sink a has not begun with any of them.
func DamagedQueue(t *testing.T, damage string) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "queue")
	q, err := queue.Open(queue.Options{Directory: dir})
	if err != nil {
		t.Fatal(err)
	}
	c, err := q.Cursor("a", false)
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= 6; n++ {
		settled := make(chan struct{})
		chunk := &queue.Chunk{
			Source: "local", Received: time.Now(), Count: 1, Records: fmt.Appendf(nil, "{\"n\":%d}\n", n),
		}
		if err := q.Append(t.Context(), chunk, func() { close(settled) }); err != nil {
			t.Fatal(err)
		}
		<-settled
	}
	c.Close()
	if err := q.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	segments, err := filepath.Glob(filepath.Join(dir, "*.segment"))
	if err != nil || len(segments) != 1 {
		t.Fatalf("got segments %q, %v, want one", segments, err)
	}
	b, err := os.ReadFile(segments[0])
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(b, []byte(damage))
	b[at+1] ^= 1
	if err := os.WriteFile(segments[0], b, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}
