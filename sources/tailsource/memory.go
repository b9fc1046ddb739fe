package tailsource

// MemoryBytes is what a tail has in memory at most: what it reads at a time, what was
// chosen of that and is being sent, and a line in pieces of each stream of a container.
func (c *Config) MemoryBytes(maxRecordBytes int) int64 {
	return 6*readBytes + (2+int64(streams))*int64(maxRecordBytes)
}
