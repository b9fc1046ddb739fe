package decision

import "time"

// ProducerGapEvent is the event type of a ProducerGap.
const ProducerGapEvent = "docket.producer.gap"

// ProducerGap is the record that docket makes when a producer has left out numbers of
// its lines: those from From to To, both included, were not received. It precedes the
// first line behind the gap. If the lines come after all, they are stored.
type ProducerGap struct {
	EventType string `json:"eventType"` // ProducerGapEvent
	Source    string `json:"source"`
	// Identity is who has sent, as docket has found out; see docs/protocol.md.
	Identity string    `json:"identity"`
	Producer string    `json:"producer"`
	From     uint64    `json:"from"`
	To       uint64    `json:"to"`
	Time     time.Time `json:"time"`
}

// ProducerConflictEvent is the event type of a ProducerConflict.
const ProducerConflictEvent = "docket.producer.conflict"

// ProducerConflict is a record of a source: the queue has lines under the source's name for a file,
// and the file was never read. Its lines are stored under another name.
type ProducerConflict struct {
	EventType string    `json:"eventType"` // ProducerConflictEvent
	Source    string    `json:"source"`
	Producer  string    `json:"producer"`
	Acked     uint64    `json:"acked"` // so many lines the queue has under the name
	Detail    string    `json:"detail"`
	Time      time.Time `json:"time"`
}
