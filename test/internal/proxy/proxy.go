// Package proxy is a network that fails on purpose.
package proxy

import (
	"net"
	"sync"
	"testing"
	"time"
)

// strikeTimeout is far beyond what the two sides of a proxy may be silent, also on a
// machine that is busy with more.
const strikeTimeout = 5 * time.Minute

// Fault is something that a proxy does to one connection.
type Fault uint8

// The faults.
const (
	CutRequest  Fault = iota // reset it while the server still reads a request
	HoldRequest              // let nothing pass any more that the client says
	LoseAnswer               // reset it when the server has answered; nothing of that passes
	HoldAnswer               // let nothing pass any more that the server says
)

// Proxy is a network between clients and a server, one of which is docket: it passes
// TCP connections on, and fails when it is told to.
type Proxy struct {
	listener net.Listener
	to       string
	pipes    sync.WaitGroup
	mu       sync.Mutex
	armed    *strike               // guarded by mu; nil: everything passes
	conns    map[*net.TCPConn]bool // guarded by mu; to be closed at the end
}

// strike is a fault that waits for its moment.
type strike struct {
	fault  Fault
	struck chan struct{} // closed when it has happened
}

// New starts a proxy to the address. It ends with the test.
func New(t testing.TB, to string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{listener: l, to: to, conns: make(map[*net.TCPConn]bool)}
	p.pipes.Go(p.accept)
	t.Cleanup(func() {
		_ = l.Close()
		p.mu.Lock()
		for conn := range p.conns {
			_ = conn.Close()
		}
		p.mu.Unlock()
		p.pipes.Wait()
	})
	return p
}

// Address is where clients reach the server.
func (p *Proxy) Address() string { return p.listener.Addr().String() }

// Strike makes the fault happen at the next chance, once. The channel is closed
// when it has happened.
func (p *Proxy) Strike(f Fault) <-chan struct{} {
	s := &strike{fault: f, struck: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed = s
	return s.struck
}

// Await waits until a fault has happened.
func Await(t testing.TB, struck <-chan struct{}) {
	t.Helper()
	select {
	case <-struck:
	case <-time.After(strikeTimeout):
		t.Fatalf("no chance for the fault within %v", strikeTimeout)
	}
}

func (p *Proxy) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return // closed at the end of the test
		}
		client := conn.(*net.TCPConn)
		conn, err = net.Dial("tcp", p.to)
		if err != nil {
			reset(client) // the server is down
			continue
		}
		server := conn.(*net.TCPConn)
		p.keep(client, server)
		p.pipes.Go(func() { p.requests(server, client) })
		p.pipes.Go(func() { p.answers(client, server) })
	}
}

// requests passes on what the client sends.
func (p *Proxy) requests(server, client *net.TCPConn) {
	defer p.close(server, client)
	buf := make([]byte, 32<<10)
	for held := false; ; {
		n, err := client.Read(buf)
		if err != nil {
			return
		}
		if s := p.take(CutRequest); s != nil {
			// A part of what came, so that the request cannot be complete.
			_, _ = server.Write(buf[:n/2])
			reset(server)
			reset(client)
			close(s.struck)
			return
		}
		if s := p.take(HoldRequest); s != nil {
			held = true
			close(s.struck)
		}
		if held {
			continue
		}
		if _, err := server.Write(buf[:n]); err != nil {
			return
		}
	}
}

// answers passes on what the server says.
func (p *Proxy) answers(client, server *net.TCPConn) {
	defer p.close(server, client)
	buf := make([]byte, 32<<10)
	for held := false; ; {
		n, err := server.Read(buf)
		if err != nil {
			return
		}
		if s := p.take(LoseAnswer); s != nil {
			reset(server)
			reset(client)
			close(s.struck)
			return
		}
		if s := p.take(HoldAnswer); s != nil {
			held = true
			close(s.struck)
		}
		if held {
			continue
		}
		if _, err := client.Write(buf[:n]); err != nil {
			return
		}
	}
}

// take returns the strike that waits, if it is of that fault, and makes it wait no
// more.
func (p *Proxy) take(f Fault) *strike {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.armed
	if s == nil || s.fault != f {
		return nil
	}
	p.armed = nil
	return s
}

func (p *Proxy) keep(conns ...*net.TCPConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range conns {
		p.conns[conn] = true
	}
}

// close closes both ends: a connection that one side has ended is of no use to the
// other.
func (p *Proxy) close(conns ...*net.TCPConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range conns {
		_ = conn.Close()
		delete(p.conns, conn)
	}
}

// reset closes a connection so that the other side gets an error, not an end.
func reset(conn *net.TCPConn) {
	_ = conn.SetLinger(0)
	_ = conn.Close()
}
