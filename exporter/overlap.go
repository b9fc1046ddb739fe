package exporter

import (
	"context"
	"sync"
)

// overlap delivers the batches of a sink that may be sent several at a time, or one
// while the next is made.
//
// Each batch has a lane: the memory for its records, which the cursor does not
// lend for so long. There is one lane more than batches that may be sent. Lanes are
// settled in the order of their batches, so the place in the queue moves over what is
// done without a hole, and no further.
type overlap struct {
	*delivery
	free     chan *lane // those without a batch
	turns    chan *lane // to whoever sends next
	underWay chan *lane // in the order of their batches
	sending  sync.WaitGroup
	settling sync.WaitGroup
	taken    uint64 // seq of the last record that a lane has had; owned by round
}

// lane is the place of one batch.
type lane struct {
	packer packer
	parcel *parcel
	packed chan bool     // says whether parcel is there to be sent; holds one
	done   chan struct{} // says that aside and err are known; holds one
	aside  uint64
	err    error
}

// overlapping returns what sends up to n batches at a time until ctx is done. Its end
// is to be called then.
func (d *delivery) overlapping(ctx context.Context, n int) *overlap {
	o := &overlap{
		delivery: d,
		free:     make(chan *lane, n+1),
		turns:    make(chan *lane),
		underWay: make(chan *lane, n+1),
	}
	for range n + 1 {
		o.free <- &lane{packer: d.packer.copying(), packed: make(chan bool, 1), done: make(chan struct{}, 1)}
	}
	for range n {
		o.sending.Go(func() { o.sendAll(ctx) })
	}
	o.settling.Go(o.settleAll)
	return o
}

// round makes one batch and has it sent, or delivers again from the dead letters,
// which has the turn of a batch.
//
// A batch that is full at once is made before its turn. Any other waits for its turn
// first, so that what comes meanwhile joins it: made too early it would be small, and
// the destination slow for it.
func (o *overlap) round(ctx context.Context) error {
	awake, stop := o.letters.untilWanted(ctx)
	defer stop()
	var l *lane
	select {
	case l = <-o.free:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if o.fullBatchWaits() {
		return o.packAhead(ctx, awake, l)
	}
	if err := o.turn(ctx, l); err != nil {
		return err
	}
	again, err := o.redrive(ctx)
	if again || err != nil {
		l.packed <- false
		return err
	}
	packed, err := o.pack(ctx, awake, l)
	if packed {
		o.underWay <- l
	}
	l.packed <- packed
	return err
}

// packAhead makes a batch in l, which waits for its turn then.
func (o *overlap) packAhead(ctx, awake context.Context, l *lane) error {
	packed, err := o.pack(ctx, awake, l)
	if !packed {
		o.free <- l
		return err
	}
	if err := o.turn(ctx, l); err != nil {
		return err
	}
	o.underWay <- l
	l.packed <- true
	return nil
}

// fullBatchWaits says whether there are records for a full batch and no dead letters
// that are to go first.
func (o *overlap) fullBatchWaits() bool {
	letters := o.letters.known.Load()
	return letters != nil && letters.Redriving == 0 && // else redrive has to look
		o.taken > 0 && o.stored() >= o.taken+uint64(o.cfg.Batch.MaxRecords)
}

// turn waits until l is the next to be sent. Its error is that ctx is done.
func (o *overlap) turn(ctx context.Context, l *lane) error {
	select {
	case o.turns <- l:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// pack makes a batch in l of the next records, and says whether there were any.
func (o *overlap) pack(ctx, awake context.Context, l *lane) (packed bool, err error) {
	records, err := o.next(ctx, awake)
	if err != nil || len(records) == 0 {
		return false, err
	}
	l.packer.expected = o.packer.expected
	l.parcel = l.packer.pack(records)
	o.packer.expected, o.taken = l.packer.expected, l.parcel.last
	o.letters.forgetPending(l.parcel.first, l.parcel.last)
	return true, nil
}

// sendAll sends batches whose turn it is, one after the other.
func (o *overlap) sendAll(ctx context.Context) {
	for l := range o.turns {
		if !<-l.packed {
			o.free <- l
			continue
		}
		l.aside, l.err = o.deliver(ctx, l.parcel)
		l.done <- struct{}{}
	}
}

// settleAll settles batches in their order.
func (o *overlap) settleAll() {
	whole := true // nothing is settled behind a batch that is not
	for l := range o.underWay {
		<-l.done
		if whole = whole && l.err == nil; whole {
			o.settle(l.parcel, l.aside)
		}
		o.free <- l
	}
}

// end waits for the batches under way. No round is made any more.
func (o *overlap) end() {
	close(o.turns)
	o.sending.Wait()
	close(o.underWay)
	o.settling.Wait()
}
