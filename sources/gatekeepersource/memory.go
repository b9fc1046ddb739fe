package gatekeepersource

import (
	"github.com/docket-export/docket/sources/delta"
	"github.com/docket-export/docket/sources/gatekeepersource/runs"
)

// MemoryBytes is what the source has in memory at most.
func (c *Config) MemoryBytes(maxRecordBytes int) int64 {
	most := runs.MemoryBytes(maxRecordBytes)
	if c.Delta {
		most += delta.MemoryBytes
	}
	return most
}
