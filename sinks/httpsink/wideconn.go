package httpsink

import (
	"context"
	"io"
	"net"
)

type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// widely makes the connections of dial write bodies in one piece. Connections with
// TLS cut them into records of 16 KB whatever they are given.
func widely(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return wideConn{conn}, nil
	}
}

// wideConn is a connection that writes a lent body from where it lies. net/http would
// copy it 32 KB at a time, and on loopback a delivery spends most of its time in those
// copies and system calls.
type wideConn struct{ net.Conn }

// ReadFrom implements io.ReaderFrom, which net/http uses for bodies: it hands over an
// io.LimitedReader of the body, as it does for the sake of files.
func (c wideConn) ReadFrom(r io.Reader) (int64, error) {
	limited, ok := r.(*io.LimitedReader)
	if !ok {
		return c.copyFrom(r)
	}
	body, ok := limited.R.(*uploadBody)
	if !ok {
		return c.copyFrom(r)
	}
	n, err := body.writeTo(c.Conn, limited.N)
	limited.N -= n
	return n, err
}

func (c wideConn) copyFrom(r io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{c.Conn}, r) // not the ReadFrom of c
}
