package once_test

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/docket-export/docket/decision/once"
)

// The model: two dockets write to a topic of three partitions. Answers get lost,
// requests that were given up are carried out at any later time, dockets are
// killed and begin again at an old position with batches cut in another way. A
// consumer reads the partitions, and dies too, between its transactions or in
// one. What it has handled must be each record of each docket once, those of a
// partition in the order of their seqs; a redriven record once, at any place.
func TestModel(t *testing.T) {
	var total result
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 0))
		topic := newTopic()
		dockets := []*docket{newDocket(rng, topic, queueA), newDocket(rng, topic, queueB)}
		consumer := &consumer{rng: rng, topic: topic}
		for slices.ContainsFunc(dockets, (*docket).busy) {
			dockets[rng.IntN(len(dockets))].step()
			consumer.step()
		}
		for _, d := range dockets {
			d.finishAbandoned()
		}
		consumer.readAll()
		for _, d := range dockets {
			if !check(t, d, consumer) {
				t.Fatalf("seed %d", seed)
			}
			total.records += len(d.partition)
			total.redriven += len(d.rejected)
		}
		for _, p := range topic.partitions {
			total.messages += len(p)
		}
	}
	t.Logf("%d records, %d of them redriven, were %d messages: %d redeliveries, none of them handled",
		total.records, total.redriven, total.messages, total.messages-total.records)
	if total.messages < total.records*5/4 || total.redriven == 0 {
		t.Error("the model makes too few redeliveries to show anything")
	}
}

type result struct{ records, redriven, messages int }

// check compares what the consumer has handled of one docket's records with what
// it should have.
func check(t *testing.T, d *docket, c *consumer) bool {
	t.Helper()
	ok := true
	for partition, saved := range c.saved {
		var inOrder, late, wantInOrder, wantLate []uint64
		for _, h := range saved.output {
			switch {
			case h.Queue != d.queue:
			case h.Late != "":
				late = append(late, h.Seq)
			default:
				inOrder = append(inOrder, h.Seq)
			}
		}
		for seq := range uint64(len(d.partition)) {
			switch seq++; {
			case d.partition[seq] != partition:
			case d.rejected[seq]:
				wantLate = append(wantLate, seq)
			default:
				wantInOrder = append(wantInOrder, seq)
			}
		}
		if !slices.Equal(inOrder, wantInOrder) {
			t.Errorf("queue %s, partition %d: handled %v\nwant %v", d.queue, partition, inOrder, wantInOrder)
			ok = false
		}
		slices.Sort(late)
		if !slices.Equal(late, wantLate) {
			t.Errorf("queue %s, partition %d: handled %v redriven\nwant %v", d.queue, partition, late, wantLate)
			ok = false
		}
	}
	return ok
}

// topic is what the brokers have.
type topic struct{ partitions [3][]once.Delivery }

func newTopic() *topic { return new(topic) }

// request is what docket sends to one partition at a time.
type request struct {
	partition int
	records   []once.Delivery
}

func (t *topic) write(r request) {
	t.partitions[r.partition] = append(t.partitions[r.partition], r.records...)
}

// docket is an exporter with one kafka sink.
type docket struct {
	rng       *rand.Rand
	topic     *topic
	queue     string
	partition map[uint64]int  // of each record, by its key
	rejected  map[uint64]bool // records that the brokers refuse in order, and take when they are redriven

	durable   uint64    // the position on disk: the first seq that is not known to be delivered
	next      uint64    // the position in memory
	letters   []uint64  // rejected, and not delivered since
	abandoned []request // given up, and yet to be carried out
}

func newDocket(rng *rand.Rand, topic *topic, queue string) *docket {
	d := &docket{rng: rng, topic: topic, queue: queue, durable: 1, next: 1,
		partition: make(map[uint64]int), rejected: make(map[uint64]bool)}
	for seq := range uint64(30 + rng.IntN(60)) {
		d.partition[seq+1] = rng.IntN(len(topic.partitions))
		if rng.IntN(12) == 0 {
			d.rejected[seq+1] = true
		}
	}
	return d
}

func (d *docket) busy() bool { return d.next <= uint64(len(d.partition)) || len(d.letters) > 0 }

// step delivers one batch, or as much of it as docket lives to.
func (d *docket) step() {
	var alive bool
	if len(d.letters) > 0 && d.rng.IntN(3) == 0 {
		if alive = d.deliver(d.letters, once.Redriven); alive {
			d.letters = nil
		}
	} else {
		alive = d.deliverNext()
	}
	if alive && d.rng.IntN(3) == 0 {
		d.durable = d.next
	}
	if !alive || d.rng.IntN(8) == 0 {
		d.next = d.durable // killed, and started again
	}
}

func (d *docket) deliverNext() bool {
	end := min(d.next+1+d.rng.Uint64N(12), uint64(len(d.partition))+1)
	var batch []uint64
	for seq := d.next; seq < end; seq++ {
		switch {
		case !d.rejected[seq]:
			batch = append(batch, seq)
		case !slices.Contains(d.letters, seq) && !d.redriven(seq):
			d.letters = append(d.letters, seq)
		}
	}
	if !d.deliver(batch, "") {
		return false
	}
	d.next = end
	return true
}

// redriven reports whether a rejected record has been delivered meanwhile: docket
// keeps its dead letters whatever its position.
func (d *docket) redriven(seq uint64) bool {
	p := d.topic.partitions[d.partition[seq]]
	return slices.Contains(p, once.Delivery{Queue: d.queue, Seq: seq, Late: once.Redriven})
}

// deliver sends the records until all are acknowledged. False: docket was killed
// before.
func (d *docket) deliver(seqs []uint64, late once.Late) bool {
	shares := make(map[int][]once.Delivery)
	for _, seq := range seqs {
		p := d.partition[seq]
		shares[p] = append(shares[p], once.Delivery{Queue: d.queue, Seq: seq, Late: late})
	}
	for len(shares) > 0 {
		if d.rng.IntN(40) == 0 {
			return false
		}
		d.carryOutSome()
		partitions := slices.Sorted(maps.Keys(shares))
		p := partitions[d.rng.IntN(len(partitions))]
		n := 1 + d.rng.IntN(len(shares[p]))
		if d.send(request{p, shares[p][:n]}) {
			shares[p] = shares[p][n:]
		}
		if len(shares[p]) == 0 {
			delete(shares, p)
		}
	}
	return true
}

// send makes one request and returns whether it was acknowledged.
func (d *docket) send(r request) bool {
	switch d.rng.IntN(8) {
	case 0: // refused, or the broker is away
		return false
	case 1: // the answer is lost
		d.topic.write(r)
		return false
	case 2: // given up, and carried out later
		d.abandoned = append(d.abandoned, r)
		return false
	}
	d.topic.write(r)
	return true
}

// carryOutSome lets a broker carry out requests that were given up.
func (d *docket) carryOutSome() {
	for len(d.abandoned) > 0 && d.rng.IntN(4) == 0 {
		i := d.rng.IntN(len(d.abandoned))
		d.topic.write(d.abandoned[i])
		d.abandoned = slices.Delete(d.abandoned, i, i+1)
	}
}

func (d *docket) finishAbandoned() {
	for _, r := range d.abandoned {
		d.topic.write(r)
	}
	d.abandoned = nil
}

// consumer reads all partitions. Its output of a partition, its position and its
// filter are saved in one transaction.
type consumer struct {
	rng   *rand.Rand
	topic *topic
	saved [3]transaction
}

type transaction struct {
	offset int
	filter []byte
	output []once.Delivery
}

// step makes a transaction, or dies in it: then nothing of it remains.
func (c *consumer) step() {
	p := c.rng.IntN(len(c.saved))
	done := c.read(p, c.rng.IntN(10))
	if c.rng.IntN(4) != 0 {
		c.saved[p] = done
	}
}

func (c *consumer) readAll() {
	for p := range c.saved {
		c.saved[p] = c.read(p, len(c.topic.partitions[p]))
	}
}

// read handles at most n messages of a partition.
func (c *consumer) read(partition, n int) transaction {
	before := c.saved[partition]
	filter := once.Filter{LateMemory: 100} // more than are redriven
	if before.filter != nil {
		if err := json.Unmarshal(before.filter, &filter); err != nil {
			panic(err)
		}
	}
	after := transaction{offset: before.offset, output: slices.Clone(before.output)}
	for _, m := range c.topic.partitions[partition][before.offset:] {
		if n--; n < 0 {
			break
		}
		if filter.Take(m) {
			after.output = append(after.output, m)
		}
		after.offset++
	}
	var err error
	if after.filter, err = json.Marshal(filter); err != nil {
		panic(err)
	}
	return after
}
