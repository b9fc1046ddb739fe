package httpsink

// MemoryBytes is what the sink has in memory at most beside the batches that it is given:
// each that is under way as a request body, compressed where it is.
func (c *Config) MemoryBytes(batch int64) int64 {
	const connection = 64 << 10
	each := batch*5/4 + connection
	if c.Compression != "" && c.Compression != "none" {
		each += batch + 1<<20
	}
	return int64(c.InFlight) * each
}
