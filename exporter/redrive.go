package exporter

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/docket-export/docket/exporter/deadletter"
	"github.com/docket-export/docket/sinks"
)

// redrives are what a delivery knows of failed ones. What fails is the disk with the
// letters, which must not hold up the records of the queue; the destination is tried
// until it does not.
type redrives struct {
	*trouble
	failures  int // since one went well
	pause     backoff.BackOff
	notBefore time.Time
}

// redrive delivers a batch of dead letters that are to be delivered again, and
// reports whether there was one. What the letters' disk does not let it do is tried
// again by a later call. Its error is that ctx is done, or that the store cannot be
// opened: until then nobody knows which records of the queue have a letter already.
func (d *delivery) redrive(ctx context.Context) (again bool, err error) {
	if !d.letters.redriving.TryLock() {
		return false, nil
	}
	defer d.letters.redriving.Unlock()
	r := &d.redrives
	if r.failures > 0 && time.Now().Before(r.notBefore) {
		return false, nil
	}
	again, err = d.redriveNext(ctx)
	switch {
	case err == nil && r.failures > 0:
		r.over(r.failures + 1)
		r.failures = 0
		r.pause.Reset()
	case err != nil && ctx.Err() == nil && d.letters.isOpen():
		r.failed(Error, "DeadLetters", err)
		r.failures++
		r.notBefore = time.Now().Add(r.pause.NextBackOff())
		return false, nil
	}
	return again, err
}

// redriveNext is redrive, once.
func (d *delivery) redriveNext(ctx context.Context) (again bool, err error) {
	list, err := d.letters.next(ctx, d.cfg.Batch)
	if err != nil || len(list) == 0 {
		return false, err
	}
	if d.cfg.Gaps {
		return true, d.keepAgain(list)
	}
	b := sinks.Batch{Queue: d.packer.queueID}
	for _, l := range list {
		b.Items = append(b.Items, sinks.Item{
			Seq: l.Seq, Source: l.Source, Producer: l.Producer, Received: l.Received, Record: l.Record, Late: sinks.Redriven,
		})
	}
	_, err = d.send(ctx, b, tries{})
	return err == nil, err
}

// errNoPlace is why a sink that proves its export gets nothing from the dead letters.
// It had none itself: they are of a sink that had its name before.
var errNoPlace = errors.New("this sink takes records in the order of their numbers and has passed this one: " +
	"give its name to a sink of the kind that it was, redrive it there, or purge it")

// keepAgain keeps letters that the sink would take for records that it has already: they
// would be lost, and count as delivered.
func (d *delivery) keepAgain(list []deadletter.Letter) error {
	for i := range list {
		list[i].Reason, list[i].Redriving = errNoPlace.Error(), false
		list[i].Attempts = 0 // no more than there were
	}
	err := d.letters.add(list, true)
	if errors.Is(err, errPurged) {
		return nil // the next redrive is of the others
	}
	if err == nil {
		d.log.Warn("dead letters are not delivered again: they are kept", "records", len(list), "error", errNoPlace)
	}
	return err
}

// next returns letters to deliver again, at most as many as lim allows. A letter whose
// record is not settled has to wait for that: the account does not know of it.
func (l *letters) next(ctx context.Context, lim sinks.BatchLimits) (list []deadletter.Letter, err error) {
	if known := l.known.Load(); known != nil && known.Redriving == 0 {
		return nil, nil
	}
	err = l.with(func(s *deadletter.Store) error {
		if err := l.removeAccepted(ctx, s); err != nil {
			return err
		}
		list, err = s.NextRedriving(l.account.Account().Next, lim.MaxRecords, int(lim.MaxBytes))
		l.underWay, l.purged = map[uint64]bool{}, make(chan struct{})
		for _, letter := range list {
			l.underWay[letter.Seq] = false
		}
		return err
	})
	return list, err
}

// isUnderWay says whether a letter is being sent again. Callers hold mu.
func (l *letters) isUnderWay(seq uint64) bool {
	_, there := l.underWay[seq]
	return there
}

// leave notes that letters are not under way any more, and reports whether some were.
// Callers hold mu.
func (l *letters) leave(seqs []uint64) bool {
	before := len(l.underWay)
	for _, seq := range seqs {
		delete(l.underWay, seq)
	}
	return len(l.underWay) < before
}

// left returns b, which comes from here, without what was purged meanwhile, and a
// channel that is closed when more of it may have been. Any other batch is left as it
// is, and has no such channel.
func (l *letters) left(b sinks.Batch) (sinks.Batch, <-chan struct{}) {
	if !isRedriven(b) {
		return b, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	b.Items = slices.DeleteFunc(slices.Clone(b.Items), func(it sinks.Item) bool { return !l.isUnderWay(it.Seq) })
	return b, l.purged
}

// isRedriven says whether b comes from the dead letters: all of it does, or nothing.
func isRedriven(b sinks.Batch) bool { return len(b.Items) > 0 && b.Items[0].Late == sinks.Redriven }

// accepted forgets the letters of b, all of which the destination has accepted. On an
// error they stay, and next goes on with it: they are not sent once more.
func (l *letters) accepted(ctx context.Context, b sinks.Batch) error {
	return l.with(func(s *deadletter.Store) error {
		for _, it := range b.Items {
			if l.isUnderWay(it.Seq) { // else it is given up, and counts so
				l.underWay[it.Seq] = true
			}
		}
		return l.removeAccepted(ctx, s)
	})
}

// accountTimeout bounds how long the account of accepted letters may take to be durable.
// A stop waits for it, as what was accepted before would come again after it; it is less
// than closeTimeout, at which the stop would wait no longer.
const accountTimeout = closeTimeout / 2

// removeAccepted removes what the destination has accepted. The account is durable
// before, so that a crash in between delivers it again and does not count it as dropped.
// Callers hold mu.
func (l *letters) removeAccepted(ctx context.Context, s *deadletter.Store) error {
	var done []uint64
	for seq, accepted := range l.underWay {
		if accepted {
			done = append(done, seq)
		}
	}
	if len(done) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), accountTimeout)
	defer cancel()
	err := l.account.Redelivered(ctx, uint64(len(done)), func() error {
		_, err := s.Remove(done)
		return err
	})
	if err != nil {
		return err
	}
	l.leave(done)
	l.tellChange()
	return nil
}
