package queue

import (
	"fmt"
	"sync"
	"testing"

	"github.com/docket-export/docket/internal/disk"
)

// AppendNow has settled when it returns, without the commit loop.
func TestAppendNowSettles(t *testing.T) {
	q := open(t, Options{Directory: t.TempDir()})
	c := cursorOf(t, q, "a")
	for n := 1; n <= 100; n++ {
		settled := false
		must(t, q.AppendNow(t.Context(), chunk(fmt.Sprintf(`{"n":%d}`, n)), func() { settled = true }))
		if !settled {
			t.Fatalf("record %d: AppendNow returned before it was settled", n)
		}
	}
	equal(t, "records", drain(t, q, c), numbered(1, 100))
}

// What cannot be written at once is written later, before what came after it.
func TestAppendNowOnAFailingDisk(t *testing.T) {
	disk := &faultFS{FS: disk.OS("")}
	q := open(t, Options{Directory: t.TempDir(), FS: disk})
	c := cursorOf(t, q, "a")
	must(t, q.AppendNow(t.Context(), chunk(`{"n":1}`), nil))
	disk.set(failing("sync", func() bool { return true }))
	var mu sync.Mutex
	var order []int
	settled := make(chan struct{})
	for n := 2; n <= 4; n++ {
		must(t, q.AppendNow(t.Context(), chunk(fmt.Sprintf(`{"n":%d}`, n)), func() {
			mu.Lock()
			defer mu.Unlock()
			if order = append(order, n); len(order) == 3 {
				close(settled)
			}
		}))
	}
	if q.Stats().Err == nil {
		t.Error("health: got no error, want that of the disk")
	}
	mu.Lock()
	if len(order) > 0 {
		t.Errorf("settled on a failing disk: %v", order)
	}
	mu.Unlock()
	disk.set(nil)
	receive(t, "settled", settled)
	equal(t, "order", []string{fmt.Sprint(order)}, []string{"[2 3 4]"})
	equal(t, "records", drain(t, q, c), numbered(1, 4))
}
