package streamsource

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/docket-export/docket/decision/stream"
	"github.com/docket-export/docket/sources/identity"
)

// handshakeWait is how long a peer may take over its TLS handshake, which is a few
// round trips. Until then it has shown nothing that a producer has.
const handshakeWait = 10 * time.Second

// maxHandshakes bounds those that are under way. When there are as many, one more takes
// the place of the oldest from the address that has most.
const maxHandshakes = 64

// writeBuffer is what the kernel holds of answers that a producer does not read: it is
// memory of docket's container. Answers are short, and all acks but the last are of no
// use.
const writeBuffer = 4 << 10

// gate says who is let in.
type gate struct {
	maxConnections int
	check          func(net.Conn) error // why a peer must stay out; nil: none must
	tls            *tls.Config          // nil: plain lines
	handshakeWait  time.Duration        // how long a peer may take over TLS
}

// checkFiles reports certificates with which nobody can connect.
func (g *gate) checkFiles() error {
	if g.tls == nil {
		return nil
	}
	if _, err := g.tls.GetConfigForClient(nil); err != nil {
		return fmt.Errorf("nobody can connect: tls: %w", err)
	}
	return nil
}

// admit serves nc in a goroutine of its own, or turns it away, which costs nothing
// beyond the call.
func (s *server) admit(stop, hard context.Context, nc net.Conn) {
	if small, ok := nc.(interface{ SetWriteBuffer(bytes int) error }); ok {
		_ = small.SetWriteBuffer(writeBuffer) // a kernel that has no say in it has its own bound
	}
	if s.gate.check != nil {
		if err := s.gate.check(nc); err != nil {
			s.turnAway(err, nc, nc)
			return
		}
	}
	if s.gate.tls != nil {
		s.admitTLS(stop, hard, nc)
		return
	}
	seat, err := s.seats.claim(nc, identityOf(nc), func() { nc.Close() })
	if err != nil {
		s.turnAway(err, nc, nc)
		return
	}
	s.wg.Go(func() { s.serveConn(stop, hard, seat, nc) })
}

// admitTLS is admit for a peer whose identity is known after its handshake.
func (s *server) admitTLS(stop, hard context.Context, nc net.Conn) {
	shaking, err := s.shaking.claim(nc, hostOf(nc), func() { nc.Close() })
	if err != nil {
		s.turnAway(err, nc, nil)
		return
	}
	s.wg.Go(func() {
		defer s.shaking.release(shaking)
		secured, err := s.gate.shakeHands(stop, nc)
		if err != nil {
			s.turnAway(err, nc, nil)
			return
		}
		seat, err := s.seats.claim(nc, identityOf(secured), func() { nc.Close() })
		if err != nil {
			s.turnAway(err, nc, secured)
			return
		}
		// A handshake takes a deep stack, which this goroutine would keep.
		s.wg.Go(func() { s.serveConn(stop, hard, seat, secured) })
	})
}

// turnAway closes nc and says why, on lines if that is not nil: with TLS nothing can be
// said before the handshake.
func (s *server) turnAway(err error, nc, lines net.Conn) {
	peer := peerOf(nc)
	if lines != nil {
		tell(lines, stream.Closing{Reason: err.Error()}.Append(nil))
	}
	nc.Close()
	s.report(err, peer)
}

// serveConn serves one connection to its end. lines is what carries the lines: what was
// accepted, or TLS over it.
func (s *server) serveConn(stop, hard context.Context, seat *seat, lines net.Conn) {
	defer s.seats.release(seat)
	c := &conn{server: s, nc: lines, seat: seat, stop: stop}
	c.ctx, c.cancel = context.WithCancelCause(hard)
	c.reading, c.endReading = context.WithCancelCause(c.ctx)
	memory := lineMemory{s.memory.Holder(seat.identity, func() { c.endReading(errSlowLine) }), c.reading}
	c.lines = newLineReader(lines, func() bool { return hasBytes(seat.nc) }, s.limit, &s.buffers, memory)
	s.seats.onLeave(seat, func() { c.endReading(errCrowded) })
	peer := peerOf(lines)
	s.report(c.serve(), peer)
}

// shakeHands makes a TLS connection of nc, within handshakeWait and unless stop is
// done. A peer that speaks something else is told so in plain text.
func (g *gate) shakeHands(stop context.Context, nc net.Conn) (*tls.Conn, error) {
	ctx, cancel := context.WithTimeout(stop, g.handshakeWait)
	defer cancel()
	secured := tls.Server(nc, g.tls)
	err := secured.HandshakeContext(ctx)
	switch {
	case err == nil:
		return secured, nil
	case stop.Err() != nil:
		return nil, errStopping
	case errors.Is(err, context.DeadlineExceeded):
		return nil, handshakeFault(fmt.Sprintf("not finished within %v", g.handshakeWait))
	case errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET):
		return nil, err // a health check, or somebody who looks for open ports
	}
	if plain, ok := errors.AsType[tls.RecordHeaderError](err); ok && plain.Conn != nil {
		const text = "the producer does not speak TLS, which this port requires: turn on TLS in the producer and set its CA"
		tell(nc, stream.Closing{Reason: text}.Append(nil))
		return nil, handshakeFault(text)
	}
	text := err.Error()
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired {
		// Its detail is the time of day: each second would be another fault to the log.
		text = strings.TrimSuffix(text, ": "+invalid.Detail)
	}
	return nil, handshakeFault(text)
}

// identityOf is who is at the other end of nc, as nobody can pretend to be: the user
// of a Unix socket, or the subject of a verified client certificate.
func identityOf(nc net.Conn) string {
	if cred, err := credentials(nc); err == nil {
		return identity.OfUser(cred.Uid)
	}
	if secured, ok := nc.(*tls.Conn); ok {
		if chains := secured.ConnectionState().VerifiedChains; len(chains) > 0 {
			return identity.OfCertificate(chains[0])
		}
	}
	return identity.Anyone
}

// hostOf is the address of a peer, without its port.
func hostOf(nc net.Conn) string {
	host, _, err := net.SplitHostPort(nc.RemoteAddr().String())
	if err != nil {
		return nc.RemoteAddr().String()
	}
	return host
}

// peerOf says who is at the other end of nc, for the log: the user and process, or
// the address and the name in its certificate. A Unix socket tells only while it is
// open.
func peerOf(nc net.Conn) string {
	if cred, err := credentials(nc); err == nil {
		return fmt.Sprintf("user %d, process %d", cred.Uid, cred.Pid)
	}
	address := nc.RemoteAddr().String()
	secured, ok := nc.(*tls.Conn)
	if !ok {
		return address
	}
	certs := secured.ConnectionState().PeerCertificates
	if len(certs) == 0 {
		return address
	}
	name := certs[0].Subject.CommonName
	if name == "" && len(certs[0].DNSNames) > 0 {
		name = certs[0].DNSNames[0]
	}
	if name == "" && len(certs[0].URIs) > 0 { // as SPIFFE names workloads
		name = certs[0].URIs[0].String()
	}
	return fmt.Sprintf("%s, certificate of %q", address, name)
}
