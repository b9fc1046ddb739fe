package filesink

import (
	"fmt"
	"regexp"
	"time"

	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/sinks/filesink/manifest"
)

const (
	activePrefix    = "decisions-active.ndjson" // and the suffix of the form
	positionName    = "decisions-active.position"
	newPositionName = positionName + newSuffix
	newManifestName = manifest.FileName + newSuffix
	lockName        = ".decisions.lock"

	// newSuffix is that of a file which is to replace the one without.
	newSuffix = ".new"
)

const nameTime = "20060102T150405Z"

// finishedPattern is what finishedName makes, for all forms. Earlier builds could put files into
// directories of days.
var finishedPattern = regexp.MustCompile(`^(\d{4}-\d\d-\d\d/)?decisions-\d{20}-\d{20}-\d{8}T\d{6}Z\.ndjson(\.gz|\.zst)?$`)

// activeName is the name of the active file in the form f.
func activeName(f form) string { return activePrefix + f.suffix() }

// finishedName is the path in the directory of a finished file with the records
// first to last.
func (p position) finishedName(at time.Time) string {
	return fmt.Sprintf("decisions-%020d-%020d-%s.ndjson%s", p.first, p.lastRecord, at.UTC().Format(nameTime), p.form.suffix())
}

// unnumberedName is the name of something set aside: "ndjson", "position".
func unnumberedName(at time.Time, suffix string) string {
	return fmt.Sprintf("decisions-unnumbered-%s.%s", at.UTC().Format(nameTime), suffix)
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
