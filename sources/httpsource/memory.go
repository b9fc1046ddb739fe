package httpsource

// Bounds of what each thing takes, for MemoryBytes.
const (
	connBytes  = 20 << 10 // an idle connection, its goroutine and the buffers of net/http
	tlsBytes   = 32 << 10 // what TLS adds
	gzipBytes  = 48 << 10
	eventBytes = 40 // of a batch.event
	smallBytes = chunkBytes + 2*chunkBytes + gzipBytes + maxBatchEvents*eventBytes + maxBatchTooLarge*prefixBytes
	knownBytes = 112 // an id that is known, in list and map
)

// MemoryBytes is what a source with this configuration takes at most, whatever its
// clients send: its connections, the bodies that are in memory at a time, and the ids
// that it knows. maxRecordBytes is limits.maxRecordBytes.
func (c Config) MemoryBytes(maxRecordBytes int) int64 {
	conn := int64(connBytes + headerFactor*(headerBytes(c.BearerTokenFile != "")+headerSlack))
	if c.TLS != nil {
		conn += tlsBytes
	}
	// A batch that grows for its last event is there twice for a moment, and a member of
	// a body beside its events may be as large as one.
	large := int64(2*(maxBatchBytes+chunkBytes) + 3*maxRecordBytes)
	return int64(c.MaxConnections)*conn + maxSmall*smallBytes + maxLarge*large + knownBytes*maxIDs
}
