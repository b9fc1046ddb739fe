package kafkasink

// MemoryBytes is the most memory that the sink takes, without the batch that it is given:
// the batch once more as requests, or twice if compressed, what brokers answer, and the
// metadata that they answered before.
func (c *Config) MemoryBytes(batch int64) int64 {
	const (
		connections = 256 << 10
		answers     = 2 * answerBytes
	)
	if c.Compression == "" || c.Compression == "none" {
		return connections + answers + batch*5/4
	}
	return connections + answers + batch*9/4
}
