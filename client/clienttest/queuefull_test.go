package clienttest_test

import (
	"fmt"
	"testing"

	"github.com/docket-export/docket/client/clienttest"
)

// There is no room for line 2, and so for none behind it: nothing about them is
// decided, whether or not the producer reads of it.
func TestRefuseAsQueueFull(t *testing.T) {
	e := newExporter(t)
	var asked []uint64
	full := true
	e.Refuse(func(l clienttest.Line) (reason, detail string) {
		asked = append(asked, l.Number)
		if l.Number == 2 && full {
			full = false
			return "QueueFull", "no room"
		}
		return "", ""
	})
	e.Hold()
	p := greet(t, e, "p", 1)
	other := greet(t, e, "other", 1)
	p.expect("acked 0")
	other.expect("acked 0")
	p.send(1, 2)
	waitFor(t, e, "2 lines held", func() bool { return e.Held() == 2 })
	other.send(1, 1)
	waitFor(t, e, "3 lines held", func() bool { return e.Held() == 3 })
	p.send(3, 3)
	waitFor(t, e, "4 lines held", func() bool { return e.Held() == 4 })
	e.Release()
	p.expect("ack 1", "refused 2 QueueFull no room", "refused 3 QueueFull no room", "closing: the queue is full: connect again later")
	p.nc.Close()
	other.expect("ack 1")
	checkLines(t, e, `p/1 {"n":1}`, `other/1 {"n":1}`)
	again := greet(t, e, "p", 2)
	again.expect("acked 1")
	again.send(2, 3)
	again.expectAck(3)
	checkLines(t, e, `p/1 {"n":1}`, `other/1 {"n":1}`, `p/2 {"n":2}`, `p/3 {"n":3}`)
	if got, want := fmt.Sprint(asked), "[1 2 1 2 3]"; got != want {
		t.Errorf("asked about lines %s, want %s", got, want)
	}
	checkViolations(t, e)
}

// What comes until the connection is closed has not been there.
func TestQueueFullEndsTheConnection(t *testing.T) {
	e := newExporter(t)
	e.Refuse(func(l clienttest.Line) (reason, detail string) { return "QueueFull", "" })
	p := greet(t, e, "p", 1)
	p.expect("acked 0")
	p.send(1, 1)
	p.expect("refused 1 QueueFull", "closing: the queue is full: connect again later")
	e.Refuse(nil)
	p.send(2, 3)
	p.nc.Close()
	waitFor(t, e, "nobody connected", func() bool { return e.Connected() == 0 })
	checkLines(t, e)
	greet(t, e, "p", 1).expect("acked 0")
	checkViolations(t, e)
}

func TestSkipsWhatWasTurnedAway(t *testing.T) {
	tests := map[string]struct {
		stored uint64
		next   uint64
		want   []string
	}{
		"nothing stored":  {0, 2, []string{"line 1 found no room and must come again"}},
		"one line stored": {1, 3, []string{"said hello with next 3 after line 1"}},
		"all come again":  {1, 2, nil},
		"more than all":   {1, 1, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			e := newExporter(t)
			e.Refuse(func(l clienttest.Line) (reason, detail string) {
				if l.Number > tt.stored {
					return "QueueFull", ""
				}
				return "", ""
			})
			p := greet(t, e, "p", 1)
			p.expect("acked 0")
			if tt.stored > 0 {
				p.send(1, int(tt.stored))
				p.expectAck(tt.stored)
			}
			p.send(int(tt.stored)+1, int(tt.stored)+1)
			p.expect(fmt.Sprintf("refused %d QueueFull", tt.stored+1))
			greet(t, e, "p", tt.next).expect(fmt.Sprintf("acked %d", tt.stored))
			checkViolations(t, e, tt.want...)
		})
	}
}

// Nobody says of a line of plain mode that it should come again.
func TestQueueFullInPlainMode(t *testing.T) {
	e := newExporter(t)
	e.Refuse(func(l clienttest.Line) (reason, detail string) {
		if l.Text == record(1) {
			return "QueueFull", ""
		}
		return "", ""
	})
	p := dial(t, e)
	p.send(1, 2)
	if err := e.Wait(within(t), 1); err != nil {
		t.Fatal(err)
	}
	checkLines(t, e, `/0 {"n":2}`, `QueueFull /0 {"n":1}`)
}
