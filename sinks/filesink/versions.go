package filesink

import (
	"errors"

	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/internal/fileversion"
	"github.com/docket-export/docket/sinks"
	"github.com/docket-export/docket/sinks/filesink/manifest"
)

// checkVersions reports a position or a manifest in place whose format version this docket
// does not read. The sink takes nothing then, and changes no file: another docket has to
// go on with them.
func checkVersions(place disk.Path, position []byte) error {
	if found := unknownPosition(position); found > 0 {
		return refuseVersion(&fileversion.Error{File: place.Join(positionName).String(), Found: found, Known: positionVersion})
	}
	f, err := place.Join(manifest.FileName).OpenRead()
	if err != nil {
		return nil // met by who reads on
	}
	defer f.Close() // read only: nothing can be lost
	size, err := f.Size()
	if err != nil {
		return err
	}
	err = manifest.CheckVersion(f, size)
	if unknown, ok := errors.AsType[*fileversion.Error](err); ok {
		return refuseVersion(&fileversion.Error{File: place.Join(manifest.FileName).String(), Found: unknown.Found, Known: unknown.Known})
	}
	return err
}

func refuseVersion(unknown *fileversion.Error) error {
	return sinks.Failf(sinks.Misconfigured, "file sink: %w", unknown)
}

// unknownPosition is the version of a position file of which this docket reads nothing; 0:
// it is ours, or damaged. Each docket writes both slots when it opens a directory.
func unknownPosition(data []byte) (found uint64) {
	for offset := 0; offset < slotsEnd; offset += slotDistance {
		slot := data[min(offset, len(data)):]
		if _, ok := decodeSlot(slot); ok {
			return 0
		}
		if v := slotVersion(slot); !isOurs(v) {
			found = max(found, v)
		}
	}
	return found
}

// isOurs reports whether this docket reads a version of the position.
func isOurs(version uint64) bool { return version == positionVersion || version == positionBefore }

// slotVersion is that in the magic of a slot; positionVersion where there is no magic.
func slotVersion(slot []byte) uint64 {
	last := len(positionMagic) - 1
	if len(slot) <= last || string(slot[:last]) != positionMagic[:last] || slot[last] < '1' || slot[last] > '9' {
		return positionVersion
	}
	return uint64(slot[last] - '0')
}
