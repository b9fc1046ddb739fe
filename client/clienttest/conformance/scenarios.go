package conformance

import (
	"context"
	"time"

	"github.com/docket-export/docket/client/clienttest"
	"github.com/docket-export/docket/decision/stream"
)

// Scenario is something that happens to a producer.
type Scenario struct {
	Name  string // acks-late
	About string // what happens, in a sentence about the exporter

	factor  int // on the number of records; 0: 1
	least   int // records, whatever the suite says; 0: no minimum
	prepare func(t *trial)
	play    func(ctx context.Context, t *trial) // beside the producer, until ctx is done; nil: nothing
}

// Scenarios returns all there are, the simple ones first.
func Scenarios() []Scenario {
	return []Scenario{
		{Name: "acks", About: "every line is acknowledged soon", prepare: acks},
		{Name: "acks-late", About: "acks come late, one for many lines; an ack without news precedes each and says in a member of its own why lines wait", prepare: acksLate},
		{Name: "last-ack", About: "the ack of the last line comes late, also after a half close", prepare: lastAck, play: playLastAck},
		{Name: "slow-reader", About: "docket reads nothing for a while, so the producer's writes wait", factor: 100, prepare: slowReader, play: playSlowReader},
		{Name: "break-before-ack", About: "the connection breaks before any ack", prepare: breakBeforeAck},
		{Name: "break-half-acked", About: "the connection breaks when half of the lines are acknowledged", prepare: breakHalfAcked},
		{Name: "break-in-line", About: "the connection breaks in the middle of a line", prepare: breakInLine},
		{Name: "acks-lost", About: "the connection breaks after lines were stored and before their acks: the next hello is answered with acked at or beyond its next, and ahead of what the producer has written again", least: manyRecords, prepare: acksLost, play: playAcksLost},
		{Name: "closing-line", About: "docket closes the connection with a reason", prepare: closingLine},
		{Name: "away", About: "docket is down for a while, and nothing listens at its address", prepare: away, play: playAway},
		{Name: "restart", About: "docket crashes three times, and knows each time what it has stored", prepare: restart, play: playRestart},
		{Name: "forgotten", About: "docket crashes and forgets the producer, but not the stored records", prepare: forgotten, play: playForgotten},
		{Name: "refused", About: "one line is refused for good", prepare: refused},
		{Name: "refusal-lost", About: "one line is refused for good, and the connection breaks before the producer can know: the next hello is answered with acked at or beyond that line", prepare: refusalLost, play: playRefusalLost},
		{Name: "queue-full", About: "the queue is full several times, also for the first line and for the last: lines are refused as QueueFull, not handled, and the connection is ended", prepare: queueFullAgain, play: playQueueFull},
	}
}

// ackDelay is how late acks are: several times later than the next line, and not
// too late for a producer that waits for each.
const ackDelay = 20 * time.Millisecond

func acks(*trial) {}

func acksLate(t *trial) { t.Delay(ackDelay) }

func lastAck(t *trial) { t.at(t.records, t.Hold) }

func playLastAck(ctx context.Context, t *trial) {
	if t.happens(ctx) {
		t.pause(ctx, 300*time.Millisecond)
	}
	t.Release()
}

// slowReader stalls twice: before the producer knows that it is talking to
// somebody slow, and when it is at full speed.
func slowReader(t *trial) {
	t.at(1, t.Stall)
	t.at(t.records/2, t.Stall)
}

func playSlowReader(ctx context.Context, t *trial) {
	for range 2 {
		if t.happens(ctx) {
			t.pause(ctx, 500*time.Millisecond)
		}
		t.Resume()
	}
}

func breakBeforeAck(t *trial) { t.BreakAfter(1) }

func breakHalfAcked(t *trial) { t.BreakAfter(t.records/2 + 1) }

func breakInLine(t *trial) { t.BreakInside(t.records / 2) }

// manyRecords do not fit into the buffers of a Unix socket on Linux, 208 KiB and the
// exporter's own, however short they are.
const manyRecords = 30_000

// acksLost stores almost all lines: what is left must get its own numbers.
func acksLost(t *trial) {
	t.Mute()
	t.After(t.records-t.records/20, func() {
		if t.Connections() == 1 { // not when the acks were lost already
			t.Hold()
		}
	})
}

// playAcksLost stalls behind the second hello: the answer overtakes the lines that it covers.
func playAcksLost(ctx context.Context, t *trial) {
	for stored := -1; stored < max(1, len(t.Lines())); { // as much as the producer sends unacknowledged
		if stored = len(t.Lines()); !t.until(ctx, func() bool { return len(t.Lines()) > 0 }) {
			return
		}
		t.pause(ctx, 250*time.Millisecond)
	}
	t.at(1, t.Stall)
	t.Break()
	t.Unmute()
	t.Release()
	if t.happens(ctx) {
		t.pause(ctx, 100*time.Millisecond) // until the producer has read the answer
	}
	t.Resume()
}

func closingLine(t *trial) {
	t.After(t.records/2, func() { t.Dismiss("the exporter is stopping") })
}

func away(t *trial) { t.at(t.records/2, t.leave) }

func playAway(ctx context.Context, t *trial) {
	if t.happens(ctx) {
		t.pause(ctx, time.Second)
		t.comeBack()
	}
}

// restart delays acks, so that at each crash some lines are stored and not
// acknowledged; the line that came last is lost.
func restart(t *trial) {
	t.Delay(ackDelay / 4)
	t.at(t.records/5, t.leave)
}

func playRestart(ctx context.Context, t *trial) {
	const crashes = 3
	for n := range crashes {
		if !t.happens(ctx) {
			return
		}
		if n < crashes-1 {
			t.at(t.records/5, t.leave)
		}
		t.comeBack()
	}
}

// forgotten loses half of the lines; the producer knows that the others are
// stored.
func forgotten(t *trial) { t.After(t.records/2, t.Hold) }

func playForgotten(ctx context.Context, t *trial) {
	told := func() bool { return t.Held() > 0 && t.Told() == len(t.Lines()) }
	if !t.until(ctx, told) {
		return
	}
	t.pause(ctx, 100*time.Millisecond) // until the producer has read that
	t.leave()
	for _, l := range t.Lines() {
		t.Forget(l.Producer)
	}
	t.Release()
	t.comeBack()
}

func refused(t *trial) { t.Refuse(half(t.records, stream.NotObject)) }

// half refuses the line in the middle for good, whenever it comes.
func half(records int, why string) func(clienttest.Line) (reason, detail string) {
	chosen, asked := "", 0
	return func(l clienttest.Line) (reason, detail string) {
		if asked++; asked == records/2 {
			chosen = l.Text
		}
		if chosen == l.Text {
			return why, "refused by the scenario"
		}
		return "", ""
	}
}

func refusalLost(t *trial) {
	t.After(t.records/2, t.Mute)
	t.Refuse(half(t.records, stream.InvalidJSON))
}

func playRefusalLost(ctx context.Context, t *trial) {
	if t.until(ctx, func() bool { return len(t.Refused()) > 0 }) {
		t.pause(ctx, 100*time.Millisecond) // as much as the producer sends unacknowledged
		t.Break()
		t.Unmute()
	}
}

// queueFullAgain is full when so many lines are stored, so many times in a row.
// Lines are held, so that those which come together are refused together.
func queueFullAgain(t *trial) {
	type spell struct{ stored, times int }
	full := []spell{{0, 3}, {t.records / 3, 2}, {2 * t.records / 3, 1}, {t.records - 1, 2}}
	stored := 0
	t.Hold()
	t.Refuse(func(clienttest.Line) (reason, detail string) {
		if len(full) == 0 || stored < full[0].stored {
			stored++
			return "", ""
		}
		if full[0].times--; full[0].times == 0 {
			full = full[1:]
		}
		return stream.QueueFull, "refused by the scenario: connect again and send it under the same number"
	})
}

func playQueueFull(ctx context.Context, t *trial) {
	for t.until(ctx, func() bool { return t.Held() > 0 }) {
		t.pause(ctx, 5*time.Millisecond) // as much as the producer sends unacknowledged
		t.Settle(t.Held())
	}
	t.Release()
}
