// Package streamsource takes in records over docket stream v1, on a Unix domain
// socket or over TCP: in plain mode from anything that can write lines, in
// acknowledged mode from producers that are told what is durable.
//
//	unix.go       the source "unix": its configuration, who may connect
//	tcp.go        the source "tcp": its configuration
//	source.go     what both are: a server over a socket
//	listen.go     the Unix socket and its file
//	server.go     connections, and the order of a stop
//	gate.go       who is let in: the peer, TLS
//	seats.go      how many, with a fair share for each identity
//	conn.go       one connection: from its first line to its end
//	lines.go      a stream cut into lines
//	buffers.go    the large buffers that busy connections read into
//	answers.go    acks and refusals on their way back
//	faults.go     why connections end, and what of it is logged
//
// # What a producer costs
//
// A connected producer costs a place among maxConnections and, while it is idle,
// one goroutine and the buffer of its next read: some 16 KB on a Unix socket,
// some 30 KB with TLS. The goroutine that writes answers ends when there are none to
// write, and no more lines are decided while 64 refusals wait to be written.
//
// What is larger than the first small buffer is taken from one budget of all stream
// sources (package budget): the beginning of a long line, for which a connection waits,
// and large buffers, which are lent for as long as reads fill them. So a long line
// has a time limit once it has begun, and nothing else has. In plain mode a producer
// may well connect when it starts and have its first decision hours later; a
// connection that was closed by then would lose that line. What holds its place
// against peers that are up to nothing is the fair share of its identity. A TLS
// handshake is another matter: a peer that has not finished it within handshakeWait is
// no producer.
package streamsource

import (
	"context"
	"net"
	"sync/atomic"

	"github.com/docket-export/docket/internal/outage"
	"github.com/docket-export/docket/sources"
)

// defaultConnections is how many producers a source serves unless configured.
const defaultConnections = 256

// source serves the producers that connect to one socket.
type source struct {
	env sources.Env
	// listen makes the socket and says whom to let in, for one Run.
	listen func(ctx context.Context) (listener, gate, error)
	// place is where it listens; a source of the same place can have its socket. Empty:
	// nobody can.
	place    string
	path     string // of the file of a Unix socket that it makes
	handover *handover
	server   atomic.Pointer[server] // of the current Run
	again    outage.Log             // of sockets that were made again
}

// Run serves producers; see sources.Source. A stop takes at most stopWait +
// severWait and a moment. In acknowledged mode producers then know what is
// durable and keep the rest; in plain mode what they had written is read first.
func (s *source) Run(ctx context.Context, in sources.Intake, ready func()) error {
	ln, gate, err := s.listen(ctx)
	if err != nil {
		s.handover.drop()
		return err
	}
	server := newServer(s.env, in, gate)
	server.ln = ln
	s.server.Store(server)
	defer s.server.Store(nil)
	ready()
	return server.serve(ctx, ln)
}

// Addr is where producers connect; see sources.Listener.
func (s *source) Addr() net.Addr {
	if server := s.server.Load(); server != nil {
		return server.ln.Addr()
	}
	return nil
}

// Stand makes a socket again whose file was removed or replaced, and looks at the
// certificates; see sources.Standing.
func (s *source) Stand(ctx context.Context) error {
	server := s.server.Load()
	if server == nil {
		return nil
	}
	again, err := server.ln.Stand(ctx)
	switch {
	case err != nil:
		return err
	case again:
		if s.again.Fails("again") { // not each time, where somebody removes it all the time
			s.env.Log.Warn("the socket was removed or replaced: docket has made it again. Look who did: a cleaner of temporary files, or the start script of an engine",
				"path", s.path)
		}
	default:
		s.again.Works()
	}
	return server.gate.checkFiles()
}

// Connections is the number of producers connected now.
func (s *source) Connections() int {
	if server := s.server.Load(); server != nil {
		return server.connections()
	}
	return 0
}
