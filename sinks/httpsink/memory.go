package httpsink

import "github.com/docket-export/docket/sinks/httpsink/encoding"

// MemoryBytes is the most memory that the sink takes, without the batches that it is
// given: a request body, compressed if configured, and its answer,
// which is copied while it is read and again when it is quoted without secrets.
func (c *Config) MemoryBytes(batch int64) int64 {
	const connection = 32 << 10
	answer := int64(maxAnswer)
	if e, err := encoding.New(c.Encoding, c.Config); err == nil {
		answer = int64(e.MaxAnswer)
	}
	total := batch*5/4 + connection + 3*answer
	if c.Compression != "" && c.Compression != "none" {
		total += batch + 1<<20
	}
	if c.OAuth2 != nil {
		total += tokenBytes
	}
	return total
}

// tokenBytes is what an answer with a token may take when it is decoded: it is JSON of any form.
const tokenBytes = 32 * maxAnswer
