package admission

import (
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"
)

// endpoint is a pod behind a Service.
type endpoint struct {
	address string
	ready   func() error // nil when the containers of the pod are ready
}

// service stands for kube-proxy: it passes each new connection to the next of the
// endpoints that are ready, and refuses it if there is none. Connections stay with their
// endpoint as long as it keeps them.
type service struct {
	listener net.Listener
	quit     chan struct{}
	pipes    sync.WaitGroup

	mu        sync.Mutex
	endpoints []endpoint          // guarded by mu
	ready     []string            // addresses of those that are ready; guarded by mu
	next      int                 // of ready; guarded by mu
	conns     map[net.Conn]string // with the endpoint at its other end; guarded by mu
}

// probePeriod is how often endpoints are asked whether they are ready. A kubelet asks
// once in some seconds; the shutdown delay of a tap is that much shorter here, too.
const probePeriod = 50 * time.Millisecond

// startService starts a Service at the address, without endpoints. It ends with the test.
func startService(t *testing.T, address string) *service {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	s := &service{listener: l, quit: make(chan struct{}), conns: make(map[net.Conn]string)}
	s.pipes.Go(s.accept)
	s.pipes.Go(s.probe)
	t.Cleanup(func() {
		close(s.quit)
		_ = l.Close()
		s.cut(func(string) bool { return true })
		s.pipes.Wait()
	})
	return s
}

// route makes these the endpoints. Connections to others stay.
func (s *service) route(endpoints ...endpoint) {
	s.mu.Lock()
	s.endpoints = endpoints
	s.mu.Unlock()
	s.update()
}

// move makes these the endpoints, and ends every connection to another.
func (s *service) move(endpoints ...endpoint) {
	s.route(endpoints...)
	s.cut(func(address string) bool {
		return !slices.ContainsFunc(endpoints, func(e endpoint) bool { return e.address == address })
	})
}

// cut ends the connections to those endpoints.
func (s *service) cut(of func(address string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for conn, address := range s.conns {
		if of(address) {
			_ = conn.Close()
		}
	}
}

func (s *service) probe() {
	ticker := time.NewTicker(probePeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			s.update()
		case <-s.quit:
			return
		}
	}
}

// update finds out which endpoints are ready.
func (s *service) update() {
	s.mu.Lock()
	endpoints := s.endpoints
	s.mu.Unlock()
	var ready []string
	for _, e := range endpoints {
		if e.ready() == nil {
			ready = append(ready, e.address)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.EqualFunc(endpoints, s.endpoints, func(a, b endpoint) bool { return a.address == b.address }) {
		s.ready = ready
	}
}

func (s *service) accept() {
	for {
		client, err := s.listener.Accept()
		if err != nil {
			return // closed at the end of the test
		}
		s.pipes.Go(func() { s.connect(client.(*net.TCPConn)) })
	}
}

// connect passes on what the two sides of a connection say, until one of them ends it.
func (s *service) connect(client *net.TCPConn) {
	address := s.pick()
	server, err := net.Dial("tcp", address)
	if err != nil {
		_ = client.SetLinger(0) // so that it is reset
		_ = client.Close()
		return
	}
	s.mu.Lock()
	s.conns[client], s.conns[server] = address, address
	s.mu.Unlock()
	var both sync.WaitGroup
	pass := func(to, from net.Conn) {
		_, _ = io.Copy(to, from)
		_ = to.Close()
		_ = from.Close()
	}
	both.Go(func() { pass(server, client) })
	pass(client, server)
	both.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, client)
	delete(s.conns, server)
}

// pick returns the address of the endpoint whose turn it is, "" if none is ready.
func (s *service) pick() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.ready) == 0 {
		return ""
	}
	s.next++
	return s.ready[s.next%len(s.ready)]
}
