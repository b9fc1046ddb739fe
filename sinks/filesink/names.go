package filesink

import (
	"time"

	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/sinks/filesink/manifest"
)

const (
	activePrefix    = manifest.ActiveName // and the suffix of the form
	positionName    = manifest.PositionName
	newPositionName = positionName + manifest.NewSuffix
	newManifestName = manifest.FileName + manifest.NewSuffix
	lockName        = manifest.LockName
)

const nameTime = "20060102T150405Z"

// activeName is the name of the active file in the form f.
func activeName(f form) string { return activePrefix + f.suffix() }

// finishedName is the path in the directory of a finished file with the records
// first to last.
func (p position) finishedName(at time.Time) string {
	return manifest.Finished(p.first, p.lastRecord, at.UTC().Format(nameTime), p.form.suffix())
}

// unnumberedName is the name of something set aside: "ndjson", "position".
func unnumberedName(at time.Time, suffix string) string {
	return manifest.Aside(at.UTC().Format(nameTime), suffix)
}

// freeTime returns the first time from now on, in steps of a second, whose name is not
// taken in dir: what was written once is never replaced. The lock keeps it free. It is
// not a whole second: by the time in its first line an export is told from another of
// the same records.
func freeTime(dir disk.Path, name func(time.Time) string) (time.Time, error) {
	for at := time.Now(); ; at = at.Add(time.Second) {
		taken, err := dir.Join(name(at)).Exists()
		if err != nil || !taken {
			return at, err
		}
	}
}
