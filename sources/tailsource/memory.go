package tailsource

import "github.com/docket-export/docket/sources/tailsource/formats"

// MemoryBytes is what a tail has in memory at most: what it reads at a time, what was
// chosen of that and is being sent, and what is decoded.
func (c *Config) MemoryBytes(maxRecordBytes int) int64 {
	return 6*readBytes + int64(maxRecordBytes) + formats.MemoryBytes(maxRecordBytes)
}
