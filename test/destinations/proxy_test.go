package destinations

import (
	"net"
	"sync"
	"testing"
)

// fault is something that a proxy does to one connection.
type fault uint8

const (
	cutRequest  fault = iota // reset it while the server still reads a request
	holdRequest              // let nothing pass any more that docket says
	loseAnswer               // reset it when the server has answered; nothing of that passes
	holdAnswer               // let nothing pass any more that the server says
)

// proxy is a network between docket and a server: it passes TCP connections on, and
// fails when it is told to.
type proxy struct {
	listener net.Listener
	to       string
	pipes    sync.WaitGroup
	mu       sync.Mutex
	armed    *strike               // guarded by mu; nil: everything passes
	conns    map[*net.TCPConn]bool // guarded by mu; to be closed at the end
}

// strike is a fault that waits for its moment.
type strike struct {
	fault  fault
	struck chan struct{} // closed when it has happened
}

// newProxy starts a proxy to the address. It ends with the test.
func newProxy(t *testing.T, to string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, to: to, conns: make(map[*net.TCPConn]bool)}
	p.pipes.Go(p.accept)
	t.Cleanup(func() {
		l.Close()
		p.mu.Lock()
		for conn := range p.conns {
			conn.Close()
		}
		p.mu.Unlock()
		p.pipes.Wait()
	})
	return p
}

func (p *proxy) address() string { return p.listener.Addr().String() }

// strike makes the fault happen at the next chance, once. The channel is closed
// when it has happened.
func (p *proxy) strike(f fault) <-chan struct{} {
	s := &strike{fault: f, struck: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed = s
	return s.struck
}

func (p *proxy) accept() {
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

// requests passes on what docket sends.
func (p *proxy) requests(server, client *net.TCPConn) {
	defer p.close(server, client)
	buf := make([]byte, 32<<10)
	for held := false; ; {
		n, err := client.Read(buf)
		if err != nil {
			return
		}
		if s := p.take(cutRequest); s != nil {
			// A part of what came, so that the request cannot be complete.
			_, _ = server.Write(buf[:n/2])
			reset(server)
			reset(client)
			close(s.struck)
			return
		}
		if s := p.take(holdRequest); s != nil {
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
func (p *proxy) answers(client, server *net.TCPConn) {
	defer p.close(server, client)
	buf := make([]byte, 32<<10)
	for held := false; ; {
		n, err := server.Read(buf)
		if err != nil {
			return
		}
		if s := p.take(loseAnswer); s != nil {
			reset(server)
			reset(client)
			close(s.struck)
			return
		}
		if s := p.take(holdAnswer); s != nil {
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
func (p *proxy) take(f fault) *strike {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.armed
	if s == nil || s.fault != f {
		return nil
	}
	p.armed = nil
	return s
}

func (p *proxy) keep(conns ...*net.TCPConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range conns {
		p.conns[conn] = true
	}
}

// close closes both ends: a connection that one side has ended is of no use to the
// other.
func (p *proxy) close(conns ...*net.TCPConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range conns {
		conn.Close()
		delete(p.conns, conn)
	}
}

// reset closes a connection so that the other side gets an error, not an end.
func reset(conn *net.TCPConn) {
	_ = conn.SetLinger(0)
	conn.Close()
}
