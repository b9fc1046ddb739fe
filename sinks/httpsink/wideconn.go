package httpsink

import (
	"context"
	"io"
	"net"
)

// writeSize is how much of a body goes into one system call. net/http copies 32 KB at
// a time, and a batch is a megabyte: on loopback a delivery spends most of its time in
// those calls.
const writeSize = 256 << 10

type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// widely makes the connections of dial write bodies in large pieces. Connections with
// TLS cut them into records of 16 KB whatever they are given.
func widely(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &wideConn{Conn: conn}, nil
	}
}

// wideConn is a connection with a buffer for what is copied to it. As with any
// connection of net/http, one goroutine writes.
type wideConn struct {
	net.Conn
	buffer []byte // nil until something is copied
}

// ReadFrom implements io.ReaderFrom, which net/http uses for bodies.
func (c *wideConn) ReadFrom(r io.Reader) (int64, error) {
	if c.buffer == nil {
		c.buffer = make([]byte, writeSize)
	}
	return io.CopyBuffer(struct{ io.Writer }{c.Conn}, r, c.buffer) // not the ReadFrom of c.Conn
}
