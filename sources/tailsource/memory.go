package tailsource

import "github.com/docket-export/docket/sources/tailsource/formats"

// MemoryBytes is what a tail has in memory at most: of each file what it reads at a time, what was
// chosen of that and is being sent, and what is decoded. It looks whether the path is a directory.
func (c *Config) MemoryBytes(maxRecordBytes int) int64 {
	files, buffer := int64(1), int64(readBytes)
	if p, err := pathsOf(c.Path); err == nil && !p.isOne() {
		files, buffer = maxLogs, severalBytes
	}
	return files * (6*buffer + int64(maxRecordBytes) + formats.MemoryBytes(maxRecordBytes))
}
