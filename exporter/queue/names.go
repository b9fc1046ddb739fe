package queue

import (
	"github.com/docket-export/docket/exporter/queue/segment"
	"github.com/docket-export/docket/exporter/queue/state"
)

// Types of the log, from package segment.
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

// Types of what the log adds up to, from package state.
type (
	// Account is one sink's place in the queue.
	Account = state.Account
	// Outcome says how many of the records that are done were not delivered.
	Outcome = state.Outcome
	// Producer names one stream of numbers.
	Producer = state.Producer
	// Numbers are the lines of a producer that were received.
	Numbers = state.Numbers
	// Gap is numbers of a producer that were not received.
	Gap = state.Gap
)

// Bounds of a chunk, and of what is remembered of producers.
const (
	MaxLost          = segment.MaxLost
	DefaultProducers = state.DefaultProducers
)

// PositionsBytes is the most memory that the producers of peers can take.
func PositionsBytes(limit int) int64 { return state.PositionsBytes(limit) }
