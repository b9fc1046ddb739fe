package manifest

import (
	"encoding/hex"
	"fmt"
	"time"

	"github.com/docket-export/docket/internal/lineage"
	"github.com/docket-export/docket/sinks"
)

// MaxLine bounds a line, newline excluded. MaxRanges gaps with the longest
// numbers fit in.
const MaxLine = 4 << 20

// Entry says that a file is finished and will not change any more. The package comment
// tells which seqs it covers.
type Entry struct {
	Name      string // path in the directory of the export, with slashes
	SHA256    Hash   // of the file as it lies on disk, compressed or not
	Bytes     int64  // of the file as it lies on disk
	Records   uint64 // lines in it, never 0
	Queue     string // UUID of the line of records
	FirstSeq  uint64 // of the first record
	LastSeq   uint64 // of the last record, or of the last gap behind it
	FirstTime time.Time
	LastTime  time.Time // when the exporter received the first and the last record
	// Incarnations are those of the queue that stored the seqs from FirstSeq to LastSeq: the ids of
	// records begin with theirs. None in an entry of an earlier docket, whose ids began with Queue.
	Incarnations lineage.Lineage
	Gaps         Gaps
	Finished     time.Time
}

// Lineage is Incarnations, for any entry.
func (e *Entry) Lineage() lineage.Lineage {
	if len(e.Incarnations) == 0 {
		return lineage.Lineage{{ID: e.Queue, First: 1}}
	}
	return e.Incarnations
}

// Removed says that a finished file was deleted because a limit said so.
type Removed struct {
	Name   string // that of the Entry
	Reason RemovalReason
	Time   time.Time
}

// RemovalReason is the limit by which a file was deleted.
type RemovalReason string

// The limits of retention.
const (
	MaxAge        RemovalReason = "MaxAge"
	MaxFiles      RemovalReason = "MaxFiles"
	MaxTotalBytes RemovalReason = "MaxTotalBytes"
)

// Unknown is the reason of a gap that cannot be explained, because the position of
// the sink was lost. To docket verify it is a break.
const Unknown sinks.GapReason = "Unknown"

// Hash is a SHA-256. Its text is hexadecimal in lower case. The zero Hash stands
// for the line before the first.
type Hash [32]byte

// String is the text of h.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// MarshalText implements encoding.TextMarshaler.
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (h *Hash) UnmarshalText(text []byte) error {
	if len(text) != hex.EncodedLen(len(h)) {
		return fmt.Errorf("hash has %d characters, want %d", len(text), hex.EncodedLen(len(h)))
	}
	_, err := hex.Decode(h[:], text)
	return err
}
