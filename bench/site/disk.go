package site

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/bench/trial"
)

// Scratch makes an empty directory on the disk, which is removed with the measurement, and
// lets the disk come to rest: what an earlier measurement has left to write must not be
// paid by this one.
func (s *Site) Scratch(t *trial.T) string {
	dir := directory(t, s.Disk)
	Rest(dir)
	return dir
}

// Rest returns when the disk that dir is on has nothing left to write.
func Rest(dir string) {
	d := trial.Must(os.Open(dir))
	defer d.Close()
	trial.Check(unix.Syncfs(int(d.Fd())))
}

// Warm writes so many bytes on the disk, and forgets them. Memory that a virtual machine
// has never used costs several times as much on first use, and without this the first
// program that is measured would pay for it and leave it to the next: as much as a
// microsecond a record.
func (s *Site) Warm(size int) {
	f := trial.Must(os.CreateTemp(s.Disk, ""))
	defer f.Close()
	piece := make([]byte, 1<<20)
	for written := 0; written < size; written += len(piece) {
		trial.Must(f.Write(piece))
	}
	trial.Check(os.Remove(f.Name()))
}

// Exported are the files that a program has exported to dir: all that are named
// *.ndjson.
func Exported(dir string) ([]string, error) { return filepath.Glob(filepath.Join(dir, "*.ndjson")) }

// Size is the size of the files that a program has exported to dir. One that is renamed at
// this moment may be missed or counted twice, so what Size says of the end is to be
// looked at again.
func Size(dir string) (total int64, err error) {
	names, err := Exported(dir)
	for _, name := range names {
		info, err := os.Stat(name)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return 0, err
		}
		total += info.Size()
	}
	return total, err
}
