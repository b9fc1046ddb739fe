// Package once drops the redeliveries in a Kafka topic that docket writes: with
// it, at least once becomes effectively once for a consumer. A sink with delivery:
// ExactlyOnce has none for consumers that read committed records, and they need no
// Filter.
//
// docket sends a record again whenever it does not know whether the brokers have it: an answer was
// lost, or docket was killed before its position was on disk. The copy carries the same id. But
// docket writes each partition in the order of the records' seqs, one request at a time. Before it
// sends a record for the first time, the brokers have acknowledged every earlier record of that
// partition that was not set aside. So the first copies of one queue's records stand in a partition
// in the order of their seqs, wherever the other copies stand. One integer is enough to tell them
// apart: a seq at or below the highest one seen is a redelivery. A [Filter] is that integer, for
// every queue that writes to the partition.
//
// Each start of docket is a queue of its own here: the ids of the records that it stores begin with
// another UUID. So a queue that was set back to an older copy gives no id a second time. Records keep
// their ids.
//
// # Use
//
// Keep one Filter for each partition of the topic. Read the headers of a message
// with [ParseHeaders], ask [Filter.Take], and skip the message when the answer is
// false:
//
//	d, err := once.ParseHeaders(m.Headers, func(h kafka.Header) (string, []byte) { return h.Key, h.Value })
//	if err != nil && !errors.Is(err, once.ErrNotDocket) {
//		return err
//	}
//	if filter.Take(d) {
//		handle(m)
//	}
//
// Save the Filter, a small piece of JSON, together with the consumer's offset and its output. Use
// one transaction of a database or one file. Where the output does not need that, use the metadata
// of the offset commit: brokers bound it to 4096 bytes, and MaxQueues keeps it small. What is saved
// apart can disagree after a crash. A Filter that is older than the output lets handled records
// through again. A Filter that is newer takes the records that are read again for redeliveries, and
// loses them. For the same reason a consumer that goes back to an earlier offset goes back to the
// Filter of that offset, or to an empty one.
//
// # Late records
//
// A record that docket sends again because an operator has asked for it comes
// after records with higher seqs. Its header docket-late says why: Replayed or
// Redriven. Such a record is taken always. That it is late changes nothing for
// the others: it does not count for the highest seq.
//
// A late record may itself be delivered twice. A Filter that has a LateMemory
// drops the second copy, if it has seen no more than that many other late records
// of the queue since the first. It cannot tell a record that is delivered twice
// from one that is replayed twice, so the second replay of a few records may be
// dropped too. Without a LateMemory no late record is dropped.
//
// # What it cannot see
//
// A record is known by its partition. More partitions, another key or another partitioner change
// the partition of records on their way. Then the Filter takes a redelivery in another partition
// for new. A waiting record may come to a partition after higher seqs, and the Filter drops it
// although it is new. Change them when /status says that nothing is pending for the sink.
//
// Two sinks of one exporter that write to one topic are one queue to a Filter,
// and what the slower of them writes is dropped. Let one sink write to a topic.
//
// A producer that sends a decision twice, to be stored as two records, has made
// two ids. docket knows a resend by its number in acknowledged mode, not in plain
// mode.
package once
