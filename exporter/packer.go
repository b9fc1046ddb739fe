package exporter

import (
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/docket-export/docket/exporter/queue"
	"github.com/docket-export/docket/exporter/queue/segment"
	"github.com/docket-export/docket/sinks"
)

// packer makes the batches of one sink: it applies the sink's filter, stamps records,
// and notes the gaps.
type packer struct {
	stamps  bool
	gaps    bool // the sink wants to know of records that it does not get
	selects selection
	// filterFailed counts a record that the filter could not judge.
	filterFailed func(error)
	// lost returns the records that damage has taken, in order.
	lost func() []segment.SeqRange
	// before is the account of the records before the first batch.
	before queue.Account
	// told is the seq up to which the destination has an account of the records; 0: it begins anew.
	told uint64
	// expected is the seq that comes next; 0 before the first batch.
	expected uint64
	// has is the seq before which the destination has all that it takes; 0: nobody knows.
	has uint64
	// isLetter reports whether there is a dead letter of a seq.
	isLetter func(seq uint64) bool
}

// maxSpareLines is the largest buffer for lines that is kept for the next batch: twice
// the default of a batch.
const maxSpareLines = 8 << 20

// batch is one on its way from the queue. Its memory is used again for another one.
type batch struct {
	sinks.Batch
	first, last uint64 // of the records it was made of
	filtered    uint64
	setAside    uint64 // before packer.has
	lines       []byte // of the records, where they are stamped
}

func (b *batch) reset(incarnation string) {
	b.Queue, b.Items, b.Gaps = incarnation, b.Items[:0], b.Gaps[:0]
	b.filtered, b.setAside = 0, 0
	if b.lines = b.lines[:0]; cap(b.lines) > maxSpareLines {
		b.lines = nil
	}
}

// pack makes b of records, which are not empty and of one incarnation of the queue. b is valid no longer than they are.
func (k *packer) pack(b *batch, records []queue.Record) {
	b.reset(records[0].Incarnation)
	b.first, b.last = records[0].Seq, records[len(records)-1].Seq
	if k.gaps && k.expected == 0 {
		k.addBefore(b)
	}
	for i := range records {
		r := &records[i]
		if k.gaps && r.Seq > k.expected {
			// The queue has passed over them: damage has taken them, or it has dropped them.
			k.addLost(b, k.expected, r.Seq-1, sinks.Dropped)
		}
		k.expected = r.Seq + 1
		isThere := r.Seq < k.has
		if isThere && k.isLetter(r.Seq) {
			b.setAside++
			continue
		}
		if !k.takes(r) {
			b.filtered++
			if k.gaps {
				b.addGap(r.Seq, r.Seq, sinks.Filtered)
			}
			continue
		}
		if isThere {
			continue
		}
		it := sinks.Item{Seq: r.Seq, Source: r.Source, Producer: r.Producer, Received: r.Received, Record: k.record(b, r)}
		if r.Seq < k.before.ReplayTo {
			it.Late = sinks.Replayed
		}
		b.Items = append(b.Items, it)
	}
}

func (k *packer) takes(r *queue.Record) bool {
	takes, err := k.selects.takes(r.Data)
	if err != nil {
		k.filterFailed(err)
	}
	return takes
}

// record returns the bytes to send: those of r, stamped if need be.
func (k *packer) record(b *batch, r *queue.Record) []byte {
	if !k.stamps {
		return r.Data
	}
	from := len(b.lines) // the buffer may move when it grows: earlier records keep the old one
	b.lines = appendStamped(b.lines, r)
	return slices.Clip(b.lines[from:])
}

// ahead is a batch of r alone, ahead of its turn.
func (k *packer) ahead(r *queue.Record) sinks.Batch {
	it := sinks.Item{Seq: r.Seq, Source: r.Source, Producer: r.Producer, Received: r.Received, Record: slices.Clone(r.Data), Late: sinks.Ahead}
	if k.stamps {
		it.Record = appendStamped(nil, r)
	}
	return sinks.Batch{Queue: r.Incarnation, Items: []sinks.Item{it}}
}

// addBefore notes the gaps before the place at which the sink went on: a sink with a
// position of its own may not have been told of the last ones. The queue knows of damage;
// other records that the sink did not get were dropped, or came before the sink.
//
// A destination that begins anew has no account of what an earlier one got.
func (k *packer) addBefore(b *batch) {
	k.expected = k.before.Next
	if k.told == 0 && hasDelivered(k.before) || k.told+1 >= k.before.Next {
		return
	}
	var rest sinks.GapReason
	switch {
	case k.before.Dropped > 0:
		rest = sinks.Dropped
	case k.before.Filtered > 0 && !hasDelivered(k.before):
		rest = sinks.Filtered
	}
	k.addLost(b, k.told+1, k.before.Next-1, rest)
}

// hasDelivered reports whether a destination of the sink may have records before a.Next. After a
// replay, a does not tell.
func hasDelivered(a queue.Account) bool { return a.Delivered > 0 || a.ReplayTo > 0 }

// addLost notes the range as corrupt where damage has taken it, and for the rest
// with the given reason; without one the rest is no gap.
func (k *packer) addLost(b *batch, from, to uint64, rest sinks.GapReason) {
	for _, l := range k.lost() {
		first, last := max(l.From, from), min(l.To-1, to)
		if first > last {
			continue
		}
		if first > from && rest != "" {
			b.addGap(from, first-1, rest)
		}
		b.addGap(first, last, sinks.Corrupt)
		from = last + 1
	}
	if from <= to && rest != "" {
		b.addGap(from, to, rest)
	}
}

func (b *batch) addGap(from, to uint64, reason sinks.GapReason) {
	if n := len(b.Gaps); n > 0 && b.Gaps[n-1].Reason == reason && b.Gaps[n-1].To+1 == from {
		b.Gaps[n-1].To = to
		return
	}
	b.Gaps = append(b.Gaps, sinks.Gap{From: from, To: to, Reason: reason})
}

// appendStamped appends the record of r with "_docket" as the last member of its
// object, and without touching its other bytes.
func appendStamped(b []byte, r *queue.Record) []byte {
	end := len(r.Data) - 1
	for r.Data[end] != '}' { // white space may follow the object
		end--
	}
	b = append(b, r.Data[:end]...)
	if !emptyObject(r.Data[:end]) {
		b = append(b, ',')
	}
	b = append(b, `"_docket":{"id":"`...)
	b = r.AppendID(b)
	b = append(b, `","seq":`...)
	b = strconv.AppendUint(b, r.Seq, 10)
	b = append(b, `,"source":"`...)
	b = append(b, r.Source...) // a name from the configuration: nothing to escape
	b = append(b, `","received":"`...)
	b = r.Received.AppendFormat(b, time.RFC3339Nano)
	b = append(b, `"}`...)
	return append(b, r.Data[end:]...)
}

// emptyObject reports whether an object, up to but without its last brace, has
// no members.
func emptyObject(b []byte) bool {
	for i := len(b) - 1; i >= 0; i-- {
		switch b[i] {
		case ' ', '\t', '\r':
		default:
			return b[i] == '{'
		}
	}
	return false
}

// packerOf returns the packer of a sink that goes on where account says.
func (d *delivery) packerOf(q queueFacts, s selection, account queue.Account) packer {
	var once sync.Once
	return packer{
		stamps:  d.cfg.Stamp,
		gaps:    d.cfg.ordered(),
		selects: s,
		lost:    q.lost,
		before:  account,

		isLetter: d.letters.has,
		filterFailed: func(err error) {
			d.metrics.filterErrors.Inc()
			once.Do(func() {
				d.log.Warn("filter cannot judge a record: the record is "+d.cfg.OnError.of()+", and docket only counts further ones", "when", d.cfg.When, "error", err)
			})
		},
	}
}
