package filesink

// compressorBytes is what compressing a finished file takes.
const compressorBytes = 6 << 20

// MemoryBytes is the most memory that the sink takes, without the batch that it is
// given.
func (c *Config) MemoryBytes(int64) int64 {
	if c.Compress == None {
		return 2 * bufferSize
	}
	return 2*bufferSize + compressorBytes
}
