package sourcetest

import (
	"bytes"
	"sync/atomic"
)

// Censor is a sources.Redaction that puts "-" in place of a text, wherever it stands.
type Censor struct {
	Text string
	// Fails, unless it holds nil, is what keeps Append from working.
	Fails atomic.Pointer[error]
}

// Append implements sources.Redaction.
func (c *Censor) Append(dst, record []byte) ([]byte, error) {
	if err := c.Fails.Load(); err != nil {
		return dst, *err
	}
	return append(dst, bytes.ReplaceAll(record, []byte(c.Text), []byte("-"))...), nil
}
