package streamsource

// What connections take at most beside the budget for long lines.
const (
	// connBytes is an idle producer, or one whose answers are being written: its first
	// buffer, goroutine, context and session.
	connBytes = 12 << 10
	// tlsBytes is what TLS adds, and handshakeBytes a handshake that is under way.
	tlsBytes       = 20 << 10
	handshakeBytes = 48 << 10
)

// MemoryBytes is what the source has in memory at most, beside the budget that it shares.
func (c *UnixConfig) MemoryBytes(int) int64 { return int64(c.MaxConnections+maxLeaving) * connBytes }

// MemoryBytes is what the source has in memory at most, beside the budget that it shares.
func (c *TCPConfig) MemoryBytes(int) int64 {
	each := int64(connBytes)
	if c.TLS == nil {
		return int64(c.MaxConnections+maxLeaving) * each
	}
	return int64(c.MaxConnections+maxLeaving)*(each+tlsBytes) + maxHandshakes*handshakeBytes
}

// Accepts implements sources.Accepting.
func (c *UnixConfig) Accepts() int { return c.MaxConnections }

// Accepts implements sources.Accepting.
func (c *TCPConfig) Accepts() int { return c.MaxConnections }

// SharesMemory implements sources.Sharing.
func (*UnixConfig) SharesMemory() {}

// SharesMemory implements sources.Sharing.
func (*TCPConfig) SharesMemory() {}
