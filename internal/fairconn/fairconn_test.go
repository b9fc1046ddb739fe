package fairconn

import (
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// peers are connections of a table, by name; those of one identity begin with its letter.
type peers struct {
	t     *testing.T
	table *Table
	ours  map[string]*Conn
	away  int
}

func newPeers(t *testing.T, most int) *peers {
	p := &peers{t: t, ours: make(map[string]*Conn)}
	p.table = New(most, func(net.Conn) string { return "" }, func(net.Conn) { p.away++ })
	return p
}

// connect reports whether the peer of that name, which has kept docket waiting since
// then, has got a place.
func (p *peers) connect(name string, since time.Duration) bool {
	ours, theirs := net.Pipe()
	p.t.Cleanup(func() { theirs.Close() })
	c := &Conn{Conn: ours, table: p.table, identity: name[:1], since: time.Now().Add(-since)}
	p.ours[name] = c
	return p.table.take(c)
}

func (p *peers) checkEvicted(want ...string) {
	p.t.Helper()
	evicted := map[string]bool{}
	for _, name := range want {
		evicted[name] = true
	}
	for name, c := range p.ours {
		if c.IsEvicted() != evicted[name] {
			p.t.Errorf("%s: got evicted %t, want %t", name, c.IsEvicted(), evicted[name])
		}
	}
}

// The one who makes room is the idlest of the identity that has most places.
func TestIdlestOfTheGreediestMakesRoom(t *testing.T) {
	p := newPeers(t, 4)
	for name, since := range map[string]time.Duration{"a1": time.Second, "a2": 3 * time.Second, "a3": 2 * time.Second, "b1": time.Hour} {
		if !p.connect(name, since) {
			t.Errorf("%s: got no place, want one of those that are free", name)
		}
	}
	if !p.connect("c1", 0) {
		t.Error("c1: got no place")
	}
	p.checkEvicted("a2")
	if got := p.table.Len(); got != 4 {
		t.Errorf("got %d places taken, want 4", got)
	}
}

// Nobody for whom docket works, and nobody who sends well, makes room.
func TestWhoWorksStays(t *testing.T) {
	p := newPeers(t, 3)
	p.connect("a1", time.Hour)
	p.connect("a2", time.Hour)
	p.connect("b1", time.Minute)
	done := p.ours["a1"].Work()
	p.ours["a2"].Rest()
	p.ours["a2"].owes = -time.Minute
	if !p.connect("c1", 0) {
		t.Error("c1: got no place, want that of b1")
	}
	p.checkEvicted("b1")
	p.ours["c1"].Work()
	if p.connect("c2", 0) {
		t.Error("c2: got a place of somebody at work")
	}
	done()
	if !p.connect("c3", 0) {
		t.Error("c3: got no place, want that of a1, for which docket works no more")
	}
	p.checkEvicted("a1", "b1")
}

// A peer that does not read its answer makes room; one that does read does not.
func TestWhoDoesNotReadMakesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := New(2, func(net.Conn) string { return "" }, func(nc net.Conn) {})
		ended := make(chan error, 2)
		answer := func(c *Conn) {
			defer c.Work()()
			_, err := c.Write(make([]byte, 100*MinRate))
			ended <- err
		}
		idle, _ := net.Pipe()
		steady, reads := net.Pipe()
		notReading, reading := &Conn{Conn: idle, table: table}, &Conn{Conn: steady, table: table}
		for _, c := range []*Conn{notReading, reading} {
			table.take(c)
			go answer(c)
		}
		newcomer := func() bool {
			ours, _ := net.Pipe()
			return table.take(&Conn{Conn: ours, table: table})
		}
		time.Sleep(readWait)
		synctest.Wait()
		if newcomer() {
			t.Error("got a place at once, want some time to read")
		}
		for range 20 {
			time.Sleep(readWait / 10)
			if _, err := io.ReadFull(reads, make([]byte, MinRate/10+1)); err != nil {
				t.Fatal(err)
			}
		}
		if !newcomer() || newcomer() || !notReading.IsEvicted() || reading.IsEvicted() {
			t.Errorf("got evicted: who does not read %t, who reads %t; want the first alone", notReading.IsEvicted(), reading.IsEvicted())
		}
		if err := <-ended; err == nil {
			t.Error("got all of the answer written, want it to end with the connection")
		}
		reads.Close()
		<-ended
	})
}

// What a peer has sent counts, but no burst buys a long pause.
func TestDebt(t *testing.T) {
	ours, theirs := net.Pipe()
	defer theirs.Close()
	c := &Conn{Conn: ours, table: newPeers(t, 1).table, since: time.Now().Add(-time.Hour)}
	if got := c.Debt(); got < time.Hour {
		t.Errorf("got a debt of %v after an hour without a byte, want an hour", got)
	}
	c.Rest()
	go theirs.Write(make([]byte, 100*MinRate))
	if _, err := io.ReadFull(c, make([]byte, 100*MinRate)); err != nil {
		t.Fatal(err)
	}
	if got := c.Debt(); got >= 0 || got < -maxCredit {
		t.Errorf("got a debt of %v after a burst, want a credit of at most %v", got, maxCredit)
	}
}

// A place is free once its connection is closed, whoever closes it.
func TestPlacesComeBack(t *testing.T) {
	p := newPeers(t, 1)
	p.connect("a1", 0)
	p.ours["a1"].Close()
	p.ours["a1"].Close()
	if got := p.table.Len(); got != 0 {
		t.Errorf("got %d places taken, want none", got)
	}
	p.connect("b1", 0)
	p.ours["b1"].Identify("c")
	p.ours["b1"].Evict()
	p.ours["b1"].Identify("d")
	if len(p.table.counts) != 0 {
		t.Errorf("got the counts %v, want none", p.table.counts)
	}
}

// An endpoint answers beside any number of connections that say nothing.
func TestManyIdle(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	const most = 8
	table := New(most, func(net.Conn) string { return "" }, func(nc net.Conn) { nc.Close() })
	server := &http.Server{ConnContext: Context, Handler: Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") }))}
	ended := make(chan error)
	go func() { ended <- server.Serve(table.Listen(l)) }()
	defer func() {
		server.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	}()
	for n := range 100 {
		nc, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		if n%2 == 0 { // keeps the connection after its answer
			io.WriteString(nc, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		}
		if n%10 != 0 {
			continue
		}
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		res, err := client.Get("http://" + l.Addr().String())
		if err != nil {
			t.Fatalf("after %d connections: %v", n+1, err)
		}
		res.Body.Close()
		if got := table.Len(); got > most {
			t.Fatalf("got %d places taken, want at most %d", got, most)
		}
	}
}
