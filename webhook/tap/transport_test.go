package tap

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
)

// A review reaches the engine in one piece with its header, however it comes, unless it is
// larger than a piece.
func TestReviewLeavesInOnePiece(t *testing.T) {
	for name, test := range map[string]struct {
		header, body string
		want         int // pieces
	}{
		"usual":        {"short", strings.Repeat("b", 10<<10), 1},
		"large":        {"short", strings.Repeat("b", 20<<10), 2},
		"large header": {strings.Repeat("h", 6<<10), "body", 1},
	} {
		t.Run(name, func(t *testing.T) {
			near, far := net.Pipe() // a read of it has one write
			defer far.Close()
			transport, _ := pipeTransport(near)
			defer transport.close()
			for _, want := range []string{test.body, test.body, ""} { // on one connection
				pieces := make(chan [][]byte, 1)
				go func() { pieces <- takeRequest(t, far, len(want)) }()
				if err := send(t, transport, iotest.HalfReader(strings.NewReader(want)), len(want), test.header); err != nil {
					t.Fatal(err)
				}
				came := <-pieces
				got, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(bytes.Join(came, nil))))
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(got.Body)
				if err != nil || string(body) != want || got.Header.Get("X-Some") != test.header || want != "" && len(came) != test.want {
					t.Errorf("got %d pieces, a body of %d bytes and error %v, want %d bytes in %d pieces", len(came), len(body), err, len(want), test.want)
				}
			}
		})
	}
}

// A body that breaks off is not asked for again on the next connection.
func TestBrokenBodyIsNotSentAgain(t *testing.T) {
	near, far := net.Pipe()
	defer far.Close()
	transport, dials := pipeTransport(near)
	defer transport.close()
	go takeRequest(t, far, len("body"))
	if err := send(t, transport, strings.NewReader("body"), len("body"), "first"); err != nil {
		t.Fatal(err)
	}
	if err := send(t, transport, iotest.ErrReader(io.ErrUnexpectedEOF), len("body"), "second"); err == nil || *dials != 1 {
		t.Errorf("got error %v and %d connections, want an error and 1", err, *dials)
	}
}

// pipeTransport is a transport whose connections are all the same, and how many it asked for.
func pipeTransport(nc net.Conn) (*transport, *int) {
	dials, t := new(int), newTransport(nil)
	t.dial = func(context.Context) (net.Conn, error) {
		*dials++
		return nc, nil
	}
	return t, dials
}

// send sends a request with that header and a body of so many bytes.
func send(t *testing.T, transport *transport, from io.Reader, length int, header string) error {
	x := &exchange{body: body{source: io.NopCloser(from)}}
	req, err := http.NewRequestWithContext(context.WithValue(t.Context(), exchangeKey{}, x), http.MethodPost, "http://engine/", nil)
	if err != nil {
		return err
	}
	if length > 0 {
		req.Body, req.ContentLength = x.body.source, int64(length)
	}
	req.RequestURI = "/"
	req.Header.Set("X-Some", header)
	res, err := transport.RoundTrip(req)
	if err != nil {
		return err
	}
	return res.Body.Close()
}

// takeRequest reads a request whose body has so many bytes, answers, and returns what came,
// by writes.
func takeRequest(t *testing.T, nc net.Conn, length int) (came [][]byte) {
	for {
		p := make([]byte, 64<<10)
		n, err := nc.Read(p)
		if err != nil {
			t.Error(err)
			return came
		}
		came = append(came, p[:n])
		if _, body, ok := bytes.Cut(bytes.Join(came, nil), []byte("\r\n\r\n")); ok && len(body) == length {
			break
		}
	}
	if _, err := io.WriteString(nc, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"); err != nil {
		t.Error(err)
	}
	return came
}
