// Package httpsource takes in events that engines POST over HTTP in bodies of many, and
// answers once they are durable. What a kind of source adds is a Protocol.
//
//	config.go       address, token, TLS
//	protocol.go     what differs between kinds
//	source.go       a source, and how it listens
//	server.go       one Run of it, and the order of a stop
//	connections.go  who is connected, and how many may be
//	memory.go       how much memory that takes
//	handler.go      from a request to its answer
//	body.go         a body unpacked, within bounds
//	cutter.go       a body cut into events
//	batch.go        events on their way
//	committer.go    batches brought into the queue, each event once
//	ids.go          which events are known
//	progress.go     what is durable
//	failures.go     what is wrong, for /status and the log
//
// # Answers
//
// A body is answered 200 once all its events are durable: stored, recognised as stored
// before, or refused by the intake and kept there, because a client would send the
// whole body again forever. It is answered 503 while the events cannot become durable:
// the client keeps the body and sends it again, and docket recognises what it stored
// meanwhile. A malformed body is answered 400. If it fits into one batch nothing of it
// is stored then; otherwise the events before the break may be.
package httpsource

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync/atomic"

	"github.com/docket-export/docket/sources"
)

// Source is a server of one protocol.
type Source struct {
	config   Config
	protocol Protocol
	env      sources.Env
	failures failures
	server   atomic.Pointer[server] // of the current Run
	leftOut  atomic.Uint64          // events that Protocol.Keep did not want
}

// New makes a source that takes in what p describes. Nothing is bound or opened before
// Run.
func New(c Config, p Protocol, env sources.Env) *Source {
	if env.MaxConnections > 0 {
		c.MaxConnections = min(c.MaxConnections, env.MaxConnections)
	}
	s := &Source{config: c, protocol: p, env: env, failures: failures{log: env.Log}}
	if keep := p.Keep; keep != nil {
		s.protocol.Keep = func(event []byte) bool {
			kept := keep(event)
			if !kept {
				s.leftOut.Add(1)
			}
			return kept
		}
	}
	return s
}

// Run serves clients; see sources.Source. A stop takes at most stopWait + settleWait and
// a moment.
func (s *Source) Run(ctx context.Context, in sources.Intake, ready func()) error {
	ln, err := s.config.listen(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = ln.Close() }() // it is closed already, unless this ends early
	// It outlives ctx, for what is under way then.
	hard, cutOff := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cutOff(nil)
	c := newCommitter(in, s.env, s.protocol, cutOff)
	if err := c.learn(ctx); err != nil {
		return fmt.Errorf("read which events the queue has: %w", err)
	}
	server := s.newServer(ln, c)
	s.server.Store(server)
	defer s.server.Store(nil)
	ready()
	return server.run(ctx, hard, cutOff)
}

// Addr is where clients connect; see sources.Listener.
func (s *Source) Addr() net.Addr {
	if server := s.server.Load(); server != nil {
		return server.listener.Addr()
	}
	return nil
}

// Stand looks at the certificates; see sources.Standing.
func (s *Source) Stand(context.Context) error {
	server := s.server.Load()
	if server == nil || server.listener.tls == nil {
		return nil
	}
	if _, err := server.listener.tls.GetConfigForClient(nil); err != nil {
		return fmt.Errorf("nobody can connect: tls: %w", err)
	}
	return nil
}

// Connections is the number of clients connected now.
func (s *Source) Connections() int {
	if server := s.server.Load(); server != nil {
		return server.conns.len()
	}
	return 0
}

// Report says what is wrong with the source or with its clients; see sources.Reporter.
func (s *Source) Report() sources.Report {
	return sources.Report{Trouble: s.failures.text(), PassedOver: sources.PassedOver("NoDecision", s.leftOut.Load())}
}

// listen makes the listener.
func (c Config) listen(ctx context.Context) (secured, error) {
	var files *tls.Config
	if c.TLS != nil {
		var err error
		if files, err = c.TLS.Server(); err != nil {
			return secured{}, fmt.Errorf("tls: %w", err)
		}
	}
	ln, err := sources.Listen(ctx, c.Address)
	if err != nil {
		return secured{}, err
	}
	if files == nil {
		if err := sources.CheckLoopback(ln); err != nil {
			return secured{}, errors.Join(err, ln.Close())
		}
	}
	return secured{ln, files}, nil
}

// secured is a listener and what its connections are secured with.
type secured struct {
	net.Listener
	tls *tls.Config // nil: nothing
}
