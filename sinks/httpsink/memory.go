package httpsink

// MemoryBytes is the most memory that the sink takes, without the batches that it is
// given: a request body for each batch under way, compressed if configured.
func (c *Config) MemoryBytes(batch int64) int64 {
	const connection = 64 << 10
	each := batch*5/4 + connection
	if c.Compression != "" && c.Compression != "none" {
		each += batch + 1<<20
	}
	return int64(c.InFlight) * each
}
