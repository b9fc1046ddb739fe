package queue

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/client/clienttest/await"
)

// smallDisk mounts a disk of size, such as "8m". That takes privileges, which a
// developer's account rarely has and CI does.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("a small disk needs the right to mount one: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return dir
}

// A disk that the backlog has filled is free again when the sinks have delivered
// it, and the queue goes on by itself.
func TestDiskFullRecovers(t *testing.T) {
	for _, seg := range []int64{256 << 10, 1 << 20} {
		t.Run(fmt.Sprint("segments of ", seg), func(t *testing.T) {
			opts := Options{Directory: filepath.Join(smallDisk(t, "24m"), "q"), SegmentBytes: seg}
			q := open(t, opts)
			c := cursorOf(t, q, "a")
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				for i := range 4000 {
					record := fmt.Sprintf(`{"n":%d,"x":%q}`, i+1, strings.Repeat("x", 10000))
					if q.Append(t.Context(), chunk(record), nil) != nil {
						return
					}
				}
			}()
			await.Until(t, "the disk is full", func() bool { return q.Stats().Err != nil })
			full := q.LastSeq()
			for c.next <= full {
				records, err := c.Next(t.Context(), Limits{Records: 100, Bytes: 1 << 20})
				must(t, err)
				must(t, c.Ack(records[len(records)-1].Seq))
			}
			await.Until(t, "the queue takes records again", func() bool { return q.LastSeq() > full })
			closeQueue(t, q)
			<-ended
		})
	}
}
