package segment

import (
	"fmt"
	"strconv"
	"time"
)

// Record is one record as a cursor returns it.
type Record struct {
	Seq uint64
	// Incarnation is the UUID of the start of the queue that stored the record, the first half of
	// its id.
	Incarnation string

	Source   string
	Producer string
	Received time.Time // UTC
	Data     []byte    // without its newline
}

// AppendID appends the id of r. It is the same at every delivery, and no other record has it.
func (r *Record) AppendID(b []byte) []byte {
	b = append(b, r.Incarnation...)
	b = append(b, '-')
	return strconv.AppendUint(b, r.Seq, 10)
}

// Names keeps the strings of recently read frames. There are few producers and
// many frames: without Names, records that come one by one would cost an
// allocation each.
type Names struct {
	Source, Producer string
	known            map[string]string
}

// maxKnownNames bounds what producers that come and go leave behind.
const maxKnownNames = 1024

// Set makes the names of a frame those of the records that follow.
func (n *Names) Set(source, producer []byte) {
	n.Source, n.Producer = n.intern(source), n.intern(producer)
}

func (n *Names) intern(name []byte) string {
	if s, ok := n.known[string(name)]; ok { // which does not allocate
		return s
	}
	if n.known == nil || len(n.known) >= maxKnownNames {
		n.known = map[string]string{}
	}
	s := string(name)
	n.known[s] = s
	return s
}

// SeqRange is the seqs from From up to, not including, To.
type SeqRange struct {
	From uint64 `json:"from"`
	To   uint64 `json:"to"`
}

// Size is how many seqs r has.
func (r SeqRange) Size() uint64 { return r.To - r.From }

// String is "record 5" or "records 5 to 7".
func (r SeqRange) String() string {
	if r.Size() == 1 {
		return fmt.Sprintf("record %d", r.From)
	}
	return fmt.Sprintf("records %d to %d", r.From, r.To-1)
}
