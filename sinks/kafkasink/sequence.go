package kafkasink

import (
	"errors"
	"math"
	"slices"

	"github.com/segmentio/kafka-go"

	"github.com/docket-export/docket/sinks"
)

// sequence numbers the records that a producer writes to one partition. The numbers rise
// by one from 0, and go on at 0 behind the greatest of 31 bits.
//
// A broker that has a batch of this producer, first number and length takes another one
// for the same and answers that it is stored, whatever is in it. So a number that may have
// reached a broker goes with its first record for ever: the request that got no answer is
// made again with the same records, or its producer writes no more to the partition.
type sequence struct {
	producer producer // nobody: none yet, or the records go without numbers
	next     int32    // of the record that comes next
	lost     []ticket // the records from next on that a request without an answer had
	broken   bool     // the broker refuses the numbers: the producer is to be given up
}

// ticket tells a record from all others, and from copies of it that say something else
// of their order.
type ticket struct {
	queue string
	seq   uint64
	late  sinks.Late
}

func ticketOf(b sinks.Batch, r *record) ticket {
	it := &b.Items[r.item]
	return ticket{b.Queue, it.Seq, it.Late}
}

// begin numbers from 0 what p writes, which has written nothing to the partition.
func (q *sequence) begin(p producer) { *q = sequence{producer: p} }

// continues says whether share, records of b, can be written with the next numbers: the
// lost ones are the first of it, or there are none.
func (q *sequence) continues(b sinks.Batch, share []record) bool {
	if q.broken || len(share) < len(q.lost) {
		return false
	}
	for i, was := range q.lost {
		if ticketOf(b, &share[i]) != was {
			return false
		}
	}
	return true
}

// first is the number of the first record of the next request.
func (q *sequence) first() int32 {
	if q.producer == nobody {
		return -1
	}
	return q.next
}

// isRepeat says whether the next request is one that has been made before.
func (q *sequence) isRepeat() bool { return len(q.lost) > 0 }

// settle keeps account of the numbers of a request for records of b that ended with err,
// and returns what that means for them: nil that a broker has them.
func (q *sequence) settle(b sinks.Batch, records []record, err error) error {
	switch {
	case q.producer == nobody:
		return err
	case err == nil, q.isRepeat() && errors.Is(err, kafka.DuplicateSequenceNumber):
		q.stored(len(records))
		return nil
	case isOutOfSequence(err):
		q.broken = true
	case isRefusal(err) && q.isRepeat():
		// The first request may be stored: its numbers cannot go to others. The error is no
		// refusal any more, and wraps none: a new producer sends the records once more.
		q.broken = true
		return errors.New("the records of a request without an answer are rejected now, and docket continues as a new producer: " + err.Error())
	case isRefusal(err): // and has used up no number
	case !q.isRepeat():
		q.lose(b, records)
	}
	return err
}

// fencing are the codes of a producer that is not the last one of its id. Whether another
// docket has come after it, or the coordinator has ended a transaction that lasted too
// long, only the owner in Kafka says.
var fencing = []kafka.Error{kafka.InvalidProducerEpoch, kafka.ProducerFenced}

// outOfSequence are the codes of a broker that does not know the producer, or not as the one
// that comes with these numbers.
var outOfSequence = slices.Concat(fencing, []kafka.Error{
	kafka.OutOfOrderSequenceNumber, kafka.DuplicateSequenceNumber, kafka.InvalidProducerIDMapping, kafka.UnknownProducerId,
})

func isOutOfSequence(err error) bool { return isOneOf(err, outOfSequence) }

// stored counts n records of a request that a broker has.
func (q *sequence) stored(n int) {
	q.next = int32((int64(q.next) + int64(n)) & math.MaxInt32)
	q.lost = nil
}

// lose keeps what a request of records of b had, which a broker may have or not.
func (q *sequence) lose(b sinks.Batch, records []record) {
	q.lost = make([]ticket, len(records))
	for i := range records {
		q.lost[i] = ticketOf(b, &records[i])
	}
}
