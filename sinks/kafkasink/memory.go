package kafkasink

// MemoryBytes is the most memory that the sink takes, without the batch that it is given:
// the batch once more as requests, or twice if compressed.
func (c *Config) MemoryBytes(batch int64) int64 {
	const connections = 512 << 10
	if c.Compression == "" || c.Compression == "none" {
		return connections + batch*5/4
	}
	return connections + batch*9/4
}
