package kafkasink

// MemoryBytes is what the sink has in memory at most beside the batch that it is given: the
// same once more as requests, and twice where they are compressed.
func (c *Config) MemoryBytes(batch int64) int64 {
	const connections = 512 << 10
	if c.Compression == "" || c.Compression == "none" {
		return connections + batch*5/4
	}
	return connections + batch*9/4
}
