package clienttest_test

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docket-export/docket/client/clienttest"
)

func TestRefuse(t *testing.T) {
	e := newExporter(t)
	asked := 0
	e.Refuse(func(l clienttest.Line) (reason, detail string) {
		asked++
		if l.Number == 2 {
			return "SomethingNew", "no use for " + l.Text
		}
		return "", ""
	})
	e.Hold()
	p := greet(t, e, "p", 1)
	p.expect("acked 0")
	p.send(1, 3)
	waitFor(t, e, "3 lines held", func() bool { return e.Held() == 3 })
	e.Release()
	p.expect(`refused 2 SomethingNew no use for {"n":2}`, "ack 3")
	checkLines(t, e, `p/1 {"n":1}`, `p/3 {"n":3}`, `SomethingNew p/2 {"n":2}`)
	p.nc.Close()
	again := greet(t, e, "p", 2) // under the same number it counts as handled
	again.expect("acked 3")
	again.send(2, 3)
	again.expectAck(3)
	if asked != 3 {
		t.Errorf("asked about %d lines, want 3", asked)
	}
	checkViolations(t, e)
}

func TestHoldSettleRelease(t *testing.T) {
	e := newExporter(t)
	e.Hold()
	p := greet(t, e, "p", 1)
	p.expect("acked 0")
	p.send(1, 10)
	waitFor(t, e, "10 lines held", func() bool { return e.Held() == 10 })
	checkLines(t, e)
	e.Settle(4)
	p.expect("ack 4")
	e.Down()
	if e.Held() != 0 {
		t.Errorf("held after Down: got %d, want 0", e.Held())
	}
	e.Up()
	p.expectEnd()
	again := greet(t, e, "p", 5)
	again.expect("acked 4")
	again.send(5, 6)
	e.Release()
	again.expectAck(6)
	if got := len(e.Lines()); got != 6 {
		t.Errorf("got %d lines, want 6", got)
	}
}

// Stored and not told: the next hello says so.
func TestMute(t *testing.T) {
	e := newExporter(t)
	e.Mute()
	p := greet(t, e, "p", 1)
	p.expect("acked 0")
	p.send(1, 5)
	if err := e.Wait(within(t), 5); err != nil {
		t.Fatal(err)
	}
	e.Down()
	e.Up()
	e.Unmute()
	p.expectEnd()
	greet(t, e, "p", 1).expect("acked 5")
}

func TestStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := clienttest.New()
		defer e.Close()
		p := greet(t, e, "p", 1)
		p.expect("acked 0")
		e.Stall()
		written := 0
		go func() {
			for n := 1; n <= 100; n++ {
				p.write(record(n) + "\n")
				written = n
			}
		}()
		synctest.Wait()
		if written > 1 {
			t.Errorf("got %d lines written to an exporter that does not read, want at most the one it was reading", written)
		}
		if got := len(e.Lines()); got != 0 {
			t.Errorf("got %d lines stored, want 0", got)
		}
		e.Resume()
		p.expectAck(100)
		p.nc.Close()
	})
}

func TestBreakAfter(t *testing.T) {
	e := newExporter(t)
	p := greet(t, e, "p", 1)
	e.BreakAfter(3)
	go p.nc.Write([]byte(record(1) + "\n" + record(2) + "\n" + record(3) + "\n" + record(4) + "\n"))
	p.expect("acked 0")
	p.expectAck(2)
	p.expectEnd()
	checkLines(t, e, `p/1 {"n":1}`, `p/2 {"n":2}`)
	again := greet(t, e, "p", 3)
	again.expect("acked 2")
	again.send(3, 4)
	again.expectAck(4)
	checkViolations(t, e)
}

func TestAfter(t *testing.T) {
	e := newExporter(t)
	e.After(2, e.Hold)
	e.After(3, func() { e.Settle(1) }) // line 2; line 3 is in nobody's hands yet
	p := greet(t, e, "p", 1)
	p.expect("acked 0")
	p.send(1, 1)
	p.expect("ack 1")
	p.send(2, 3)
	p.expect("ack 2")
	waitFor(t, e, "line 3 held", func() bool { return e.Held() == 1 })
	checkLines(t, e, `p/1 {"n":1}`, `p/2 {"n":2}`)
}

// Lines that were read with the one that broke the connection have never come.
func TestAfterBreak(t *testing.T) {
	e := newExporter(t)
	e.BreakAfter(1)
	var after []string
	e.After(2, func() { after = append(after, "two") })
	p := greet(t, e, "p", 1)
	p.expect("acked 0")
	p.write(record(1) + "\n" + record(2) + "\n" + record(3) + "\n")
	p.expectEnd()
	waitFor(t, e, "nobody connected", func() bool { return e.Connected() == 0 })
	if len(after) > 0 {
		t.Errorf("After: got %q done for lines of a broken connection, want nothing", after)
	}
	again := greet(t, e, "p", 1) // whatever was read there, the numbers are free
	again.expect("acked 0")
	again.send(2, 2)
	again.expectAck(1)
	checkViolations(t, e, `line 1 was {"n":1} and is {"n":2} now`)
}

func TestDownAndUp(t *testing.T) {
	e := newExporter(t)
	p := greet(t, e, "p", 1)
	p.expect("acked 0")
	e.Down()
	p.expectEnd()
	if _, err := e.Dial(within(t)); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("Dial while down: got %v, want ECONNREFUSED", err)
	}
	waitFor(t, e, "nobody connected", func() bool { return e.Connected() == 0 })
	e.Up()
	greet(t, e, "p", 1).expect("acked 0")
}

// A stalled, held or delayed exporter can be closed.
func TestCloseEndsEverything(t *testing.T) {
	for name, prepare := range map[string]func(*clienttest.Exporter){
		"stalled": (*clienttest.Exporter).Stall,
		"held":    (*clienttest.Exporter).Hold,
		"muted":   (*clienttest.Exporter).Mute,
		"unread":  func(*clienttest.Exporter) {},
	} {
		t.Run(name, func(t *testing.T) {
			e := clienttest.New()
			prepare(e)
			p := dial(t, e)
			go p.nc.Write([]byte(`{"docket":{"version":1,"producer":"p","next":1}}` + "\n" + strings.Repeat("{}\n", 1000)))
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			_ = e.Wait(ctx, 1000) // as far as it gets
			e.Close()
			if got := e.Connected(); got != 0 {
				t.Errorf("connected after Close: got %d, want 0", got)
			}
		})
	}
}
