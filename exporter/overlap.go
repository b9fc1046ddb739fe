package exporter

import (
	"context"
	"sync"
)

// overlap returns a round for a sink that takes up to n batches at a time, and
// what waits for the batches under way; it is to be called once, when the context of
// the rounds is done.
//
// Each batch has a lane: the memory for its records, which the cursor does not
// lend for so long. Lanes are settled in the order of their batches, so the place
// in the queue moves over what is done without a hole, and no further.
func (d *delivery) overlap(n int) (round func(context.Context) error, end func()) {
	free := make(chan *lane, n)
	for range n {
		free <- &lane{packer: d.packer.copying()}
	}
	underWay := make(chan *lane, n)
	var settling sync.WaitGroup
	settling.Go(func() {
		whole := true // nothing is settled behind a batch that is not
		for l := range underWay {
			<-l.done
			if whole = whole && l.err == nil; whole {
				d.settle(l.parcel, l.aside)
			}
			free <- l
		}
	})
	round = func(ctx context.Context) error {
		awake, stop := d.letters.untilWanted(ctx)
		defer stop()
		var l *lane
		select {
		case l = <-free:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if again, err := d.redrive(ctx); again || err != nil { // it has the place of a batch
			free <- l
			return err
		}
		records, err := d.next(ctx, awake)
		if err != nil || len(records) == 0 {
			free <- l
			return err
		}
		l.packer.expected = d.packer.expected
		l.parcel = l.packer.pack(records)
		d.packer.expected = l.packer.expected
		d.letters.forgetPending(l.parcel.first, l.parcel.last)
		l.done = make(chan struct{})
		underWay <- l
		go func() {
			defer close(l.done)
			l.aside, l.err = d.deliver(ctx, l.parcel)
		}()
		return nil
	}
	return round, func() {
		close(underWay)
		settling.Wait()
	}
}

// lane is the place of one batch under way.
type lane struct {
	packer packer
	parcel *parcel
	done   chan struct{} // closed when aside and err are known
	aside  uint64
	err    error
}
