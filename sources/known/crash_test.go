package known

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/internal/disk/crashdisk"
)

func onDisk(fsys disk.FS, acked uint64) (*Log, error) {
	l, _, err := Open(disk.On(fsys, "/queue").Join("sources", "opa"))
	if err == nil {
		_, err = l.Restore(acked)
	}
	return l, err
}

// What Sync has told of is known after a power cut, and what was known before it.
func TestSyncOutlivesAPowerCut(t *testing.T) {
	sync := func(acked uint64, numbers ...int) func(disk.FS) error {
		return func(fsys disk.FS) error {
			l, err := onDisk(fsys, acked)
			if err != nil {
				return err
			}
			for _, n := range numbers {
				l.Add(id(n))
			}
			return l.Sync()
		}
	}
	err := crashdisk.Trial{
		Seeds:   uint64(20 / few(10)),
		Prepare: sync(0, 1, 2), Do: sync(2, 3, 4),
		Check: func(fsys disk.FS, did bool) error {
			acked := uint64(2)
			if did {
				acked = 4
			}
			l, err := onDisk(fsys, acked)
			if err != nil {
				return err
			}
			for n := uint64(1); n <= acked; n++ {
				if got := l.window.numbers[id(int(n))]; got != n {
					return fmt.Errorf("record %d has the number %d", n, got)
				}
			}
			return nil
		},
	}.Run()
	if err != nil {
		t.Error(err)
	}
}

// What was cut does not come back with a power cut once its number was given to another
// record, one without an identity, for which nothing is written.
func TestCutOutlivesAPowerCut(t *testing.T) {
	d := crashdisk.New(rand.New(rand.NewPCG(1, 1)))
	d.Boot()
	l, err := onDisk(d.Process(), 0)
	if err != nil {
		t.Fatal(err)
	}
	add(t, l, 1)
	add(t, l, 2)
	l.Cut(2)
	if number, _ := l.Add(ID{}); number != 2 {
		t.Fatalf("got the number %d, want 2", number)
	}
	if err := l.Sync(); err != nil {
		t.Fatal(err)
	}
	d.Cut(false, func(int) bool { return false })
	d.Boot()
	if l, err = onDisk(d.Process(), 2); err != nil { // the queue has stored the record
		t.Fatal(err)
	}
	if number, ok := l.window.numbers[id(2)]; ok {
		t.Errorf("record 2 was cut, and is known as number %d", number)
	}
}
