package sources

import (
	"github.com/docket-export/docket/decision/stream"
)

// Refusal is a line that was not stored.
type Refusal struct {
	Number uint64 // 0 when the session is not numbered
	Reason Reason
	Detail string // what was wrong, for a person
}

// Reason says why a line was refused. The values are part of the stream protocol
// (decision/stream, docs/protocol.md) and of metric labels.
type Reason string

// Why a line is refused.
const (
	InvalidJSON Reason = stream.InvalidJSON
	NotObject   Reason = stream.NotObject
	TooLarge    Reason = stream.TooLarge // longer than limits.maxRecordBytes
	// Unredactable: what the source redacts could not be taken out, as the key of an
	// HMAC cannot be read. Storing the line unredacted would be worse.
	Unredactable Reason = stream.Unredactable
)
