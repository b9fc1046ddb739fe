package gatekeepersource

import "github.com/docket-export/docket/sources/gatekeepersource/runs"

// MemoryBytes is what the source has in memory at most. What changes between audits lies
// in files.
func (c *Config) MemoryBytes(maxRecordBytes int) int64 { return runs.MemoryBytes(maxRecordBytes) }
