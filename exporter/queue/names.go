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
)

// Types of what the log adds up to, from package state.
type (
	// Account is one sink's place in the queue.
	Account = state.Account
	// Outcome says how many of the records that are done were not delivered.
	Outcome = state.Outcome
	// Producer names one stream of numbers.
	Producer = state.Producer
)

// MaxLost bounds the count of a tally of lost records.
const MaxLost = segment.MaxLost
