package queue

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/exporter/queue/state"
	"github.com/docket-export/docket/internal/disk"
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

// ballast fills the disk to the last byte.
func ballast(t *testing.T, dir string) (name string) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "ballast"))
	must(t, err)
	defer f.Close()
	for n := 1 << 20; n >= 512; n /= 2 {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, n))
		}
	}
	return f.Name()
}

// withoutPrepared takes away what Open could use or remove on a full disk.
func withoutPrepared(t *testing.T, dir string) {
	t.Helper()
	for _, pattern := range []string{"*" + disk.NewSuffix} {
		names, err := filepath.Glob(filepath.Join(dir, pattern))
		must(t, err)
		for _, name := range names {
			must(t, os.Remove(name))
		}
	}
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

func TestOpenOnAFullDisk(t *testing.T) {
	tests := map[string]struct {
		damage func(t *testing.T, dir string)
		want   []string
	}{
		"nothing else": {func(*testing.T, string) {}, numbered(1, 5)},
		"damage": {func(t *testing.T, dir string) {
			seg := segmentFiles(t, dir)[0]
			flip(t, seg, offsets(t, seg)[2]-4)
		}, append(numbered(1, 1), numbered(3, 5)...)},
		"cursors lost": {func(t *testing.T, dir string) {
			must(t, os.Remove(filepath.Join(dir, state.CursorsFile)))
		}, numbered(1, 5)},
		"cursors damaged": {func(t *testing.T, dir string) {
			zero(t, filepath.Join(dir, state.CursorsFile), 0, 2*slotSize)
		}, numbered(1, 5)},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			dir := smallDisk(t, "8m")
			opts := Options{Directory: filepath.Join(dir, "q")}
			q := open(t, opts)
			cursorOf(t, q, "a")
			storeNumbered(t, q, 1, 6, 1)
			killed(t, q)
			withoutPrepared(t, opts.Directory)
			tt.damage(t, opts.Directory)
			full := ballast(t, dir)

			q = open(t, opts)
			if q.Stats().Err == nil {
				t.Error("the queue says that it can write")
			}
			// The sixth is the tail, which is not shown before it is safe.
			c := cursorOf(t, q, "a")
			equal(t, "delivered on the full disk", drain(t, q, c), tt.want)
			must(t, os.Remove(full))
			await.Until(t, "the tail is safe", func() bool { return q.LastSeq() == 6 })
			equal(t, "delivered after that", drain(t, q, c), numbered(6, 6))
		})
	}
}

// The process ends on a nearly full disk: there is room for the header of a
// segment, and not for the tail that Open wants to write again.
func TestTailOnANearlyFullDisk(t *testing.T) {
	dir := smallDisk(t, "8m")
	opts := Options{Directory: filepath.Join(dir, "q")}
	q := open(t, opts)
	store(t, q, chunk(`{"n":1}`))
	store(t, q, chunk(strings.Repeat("x", 1<<20)))
	await.Until(t, "the first segment gives back what it does not use", func() bool {
		info, err := os.Stat(segmentFiles(t, opts.Directory)[0])
		return err == nil && info.Size() < minSegmentBytes
	})
	killed(t, q)
	withoutPrepared(t, opts.Directory)
	full := ballast(t, dir)
	info, err := os.Stat(full)
	must(t, err)
	must(t, os.Truncate(full, info.Size()-64<<10))
	q = open(t, opts)
	if q.Stats().Err == nil {
		t.Error("the queue says that it can write")
	}
	closeQueue(t, q)
	must(t, os.Remove(full))
	q = open(t, opts)
	if got := q.LastSeq(); got != 2 {
		t.Errorf("last seq: got %d, want 2: an acknowledged record is gone", got)
	}
}

// What is on a read-only disk can still be delivered.
func TestOpenOnAReadOnlyDisk(t *testing.T) {
	dir := smallDisk(t, "24m")
	opts := Options{Directory: filepath.Join(dir, "q")}
	q := open(t, opts)
	cursorOf(t, q, "a")
	storeNumbered(t, q, 1, 5, 1)
	killed(t, q)
	must(t, unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	q, err := Open(opts)
	must(t, err)
	equal(t, "records", drain(t, q, cursorOf(t, q, "a")), numbered(1, 4))
	must(t, unix.Mount("", dir, "", unix.MS_REMOUNT, ""))
	await.Until(t, "the tail is safe", func() bool { return q.LastSeq() == 5 })
	q.Close(t.Context()) // its files were opened for reading: the last cursor stays where it was
}
