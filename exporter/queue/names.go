package queue

import "github.com/docket-export/docket/exporter/queue/segment"

// What the log is made of, as package segment keeps it.
type (
	// Chunk is what one Append keeps.
	Chunk = segment.Chunk
	// Tally counts by name.
	Tally = segment.Tally
	// Record is one record as a cursor returns it.
	Record = segment.Record
	// SeqRange is the seqs from From up to, not including, To.
	SeqRange = segment.SeqRange
)

// Bounds of a chunk.
const (
	MaxLost    = segment.MaxLost
	MaxPayload = segment.MaxPayload
)
