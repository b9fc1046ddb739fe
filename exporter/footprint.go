package exporter

import (
	"github.com/docket-export/docket/sinks"
)

// DiskPart is the most that one part of docket takes on disk.
type DiskPart struct {
	Name  string
	Bytes int64
	// Key is set for a part without a bound: the path of the key that would bound it. Bytes
	// is 0 then.
	Key string
}

// letterCopies is how often dead letters lie on disk while their log is written anew: as
// letters, as removed ones, and in the new log.
const letterCopies = 3

// spareBytes is for what is small or rare: quarantine, positions and cursors of the queue,
// the state of sources, manifests of exports. By default it is what queue.minFreeBytes
// leaves free, too.
const spareBytes = 64 << 20

// Disk returns the most that docket takes on disk with this configuration, in all
// its directories. A smaller volume is full before the bounds are reached.
func (c *Config) Disk() []DiskPart {
	parts := []DiskPart{{Name: "queue", Bytes: int64(c.Queue.MaxBytes)}}
	for i, s := range c.Sinks {
		if s.OnReject == DeadLetter {
			parts = append(parts, DiskPart{Name: "dead letters of " + s.Name, Bytes: letterCopies * int64(s.DeadLetters.MaxBytes)})
		}
		if k, ok := s.Config.(sinks.Keeper); ok {
			part := DiskPart{Name: "export of " + s.Name}
			var key string
			if part.Bytes, key = k.DiskBytes(max(int64(s.most().MaxBytes), int64(c.Limits.MaxRecordBytes))); key != "" {
				part.Key = partPath("sinks", i, s.Kind) + "." + key
			}
			parts = append(parts, part)
		}
	}
	return append(parts,
		DiskPart{Name: "refused lines", Bytes: refusedMaxBytes},
		DiskPart{Name: "spare", Bytes: max(spareBytes, int64(c.Queue.MinFreeBytes))})
}
