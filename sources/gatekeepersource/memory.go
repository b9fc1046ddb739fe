package gatekeepersource

// MemoryBytes is what the source has in memory at most: the lines it reads, and the pieces
// that are gathered, wait and are sent. What changes between audits lies in files.
func (c *Config) MemoryBytes(maxRecordBytes int) int64 {
	return 4*int64(max(maxRecordBytes, blockSize)) + 4*int64(pieceBytes+maxRecordBytes)
}
