package filesink

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

const (
	activeName      = "decisions-active.ndjson"
	positionName    = "decisions-active.position"
	newPositionName = positionName + ".new"
	lockName        = ".decisions.lock"
)

const nameTime = "20060102T150405Z"

// finishedName is the name of a file with the records first to last.
func finishedName(first, last uint64, at time.Time) string {
	return fmt.Sprintf("decisions-%020d-%020d-%s.ndjson", first, last, at.UTC().Format(nameTime))
}

// unnumberedName is the name of something set aside: "ndjson" or "position".
func unnumberedName(at time.Time, suffix string) string {
	return fmt.Sprintf("decisions-unnumbered-%s.%s", at.UTC().Format(nameTime), suffix)
}

// freeTime returns the first whole second from now on whose name is not taken
// in dir: what was written once is never replaced. The lock keeps it free.
func freeTime(dir string, name func(time.Time) string) (time.Time, error) {
	for at := time.Now().Truncate(time.Second); ; at = at.Add(time.Second) {
		taken, err := exists(filepath.Join(dir, name(at)))
		if err != nil || !taken {
			return at, err
		}
	}
}

func exists(path string) (bool, error) {
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
