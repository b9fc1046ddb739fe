package filesink

import (
	"encoding/binary"
	"errors"
	"path/filepath"

	"github.com/docket-export/docket/internal/fileversion"
	"github.com/docket-export/docket/sinks"
	"github.com/docket-export/docket/sinks/filesink/manifest"
)

// checkVersions reports a position or a manifest in dir whose format version this docket
// does not read. The sink takes nothing then, and changes no file: another docket has to
// go on with them.
func checkVersions(dir string, position []byte) error {
	if found := unknownPosition(position); found > 0 {
		return refuseVersion(&fileversion.Error{File: filepath.Join(dir, positionName), Found: found, Known: positionVersion})
	}
	_, err := manifest.Last(dir)
	if unknown, ok := errors.AsType[*fileversion.Error](err); ok {
		return refuseVersion(&fileversion.Error{File: filepath.Join(dir, manifest.FileName), Found: unknown.Found, Known: unknown.Known})
	}
	return nil // what else is wrong is met by who reads on
}

func refuseVersion(unknown *fileversion.Error) error {
	return sinks.Failf(sinks.Misconfigured, "file sink: %w", unknown)
}

// unknownPosition is the version of a position file of which this docket reads nothing; 0:
// it is ours, or damaged. Each docket writes both slots when it opens a directory. So a
// version beside a good slot of ours is not believed unless its checksum holds.
func unknownPosition(data []byte) (found uint64) {
	good := false
	for offset := 0; offset < slotsEnd; offset += slotDistance {
		slot := data[min(offset, len(data)):]
		_, ok := decodeSlot(slot)
		good = good || ok
	}
	for offset := 0; offset < slotsEnd; offset += slotDistance {
		slot := data[min(offset, len(data)):]
		if v := slotVersion(slot); !isOurs(v) && (!good || sumHolds(slot)) {
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

// sumHolds reports whether a slot has the checksum that one of ours would have.
func sumHolds(slot []byte) bool {
	return len(slot) >= positionSlot && binary.BigEndian.Uint32(slot[positionBody:]) == checksum(slot[:positionBody])
}
