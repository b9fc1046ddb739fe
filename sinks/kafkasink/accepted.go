package kafkasink

import (
	"maps"

	"github.com/docket-export/docket/sinks"
)

// accepted remembers which records a broker has taken of batches that have not
// been taken as a whole, so that a retry sends only the others. It knows them by
// id and not by partition, so it holds when the topic gets more partitions. It
// is memory only: after a restart those records are sent again.
type accepted map[recordID]struct{}

// recordID is the id of a record.
type recordID struct {
	queue string
	seq   uint64
}

// begin makes a ready for b. What lies before b is settled: a delivery goes
// forward, or offers the parts of a batch one after the other. Redriven records come in between.
func (a accepted) begin(b sinks.Batch) {
	if b.Items[0].Late == sinks.Redriven {
		return
	}
	maps.DeleteFunc(a, func(id recordID, _ struct{}) bool { return id.queue != b.Queue || id.seq < b.Items[0].Seq })
}

func (a accepted) has(b sinks.Batch, it *sinks.Item) bool {
	_, ok := a[recordID{b.Queue, it.Seq}]
	return ok
}

func (a accepted) add(b sinks.Batch, it *sinks.Item) { a[recordID{b.Queue, it.Seq}] = struct{}{} }

// forget drops the records of b once all of it has been accepted. Others may
// belong to the rest of a batch that is being offered in parts.
func (a accepted) forget(b sinks.Batch) {
	for i := range b.Items {
		delete(a, recordID{b.Queue, b.Items[i].Seq})
	}
}
