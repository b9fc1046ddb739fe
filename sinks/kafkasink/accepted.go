package kafkasink

import "github.com/docket-export/docket/sinks"

// accepted remembers which records a broker has taken of batches that have not
// been taken as a whole, so that a retry sends only the others. It knows them by
// seq and not by partition, so it holds when the topic gets more partitions. It
// is memory only: after a restart those records are sent again.
type accepted struct {
	queue string // the seqs are of this queue
	seqs  map[uint64]struct{}
}

// begin makes a ready for b. What lies before b is settled: a delivery goes
// forward, or offers the parts of a batch one after the other.
func (a *accepted) begin(b sinks.Batch) {
	if a.seqs == nil || a.queue != b.Queue {
		a.queue = b.Queue
		a.seqs = make(map[uint64]struct{})
	}
	for seq := range a.seqs {
		if seq < b.Items[0].Seq {
			delete(a.seqs, seq)
		}
	}
}

func (a *accepted) has(seq uint64) bool {
	_, ok := a.seqs[seq]
	return ok
}

func (a *accepted) add(seq uint64) { a.seqs[seq] = struct{}{} }

// forget drops the records of b once all of it has been accepted. Others may
// belong to the rest of a batch that is being offered in parts.
func (a *accepted) forget(b sinks.Batch) {
	if len(a.seqs) == 0 {
		return
	}
	for _, it := range b.Items {
		delete(a.seqs, it.Seq)
	}
}
