package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"

	"github.com/docket-export/docket/decision/stream"
)

// answerMain is a server that speaks the stream protocol and does nothing else: lines
// are acknowledged unseen, as many at once as have arrived. What it costs to talk to
// it is the floor of a round trip. It serves one producer and ends with it.
func answerMain(_ context.Context, args []string, _ io.Writer) error {
	if len(args) != 1 {
		return errors.New("want a socket")
	}
	l, err := net.Listen("unix", args[0])
	if err != nil {
		return err
	}
	nc, err := l.Accept()
	if err := errors.Join(err, l.Close()); err != nil { // which removes the socket
		return err
	}
	defer nc.Close()
	lines := bufio.NewReaderSize(nc, 256<<10)
	answer := stream.Answer{}.Append(nil)
	for n := uint64(1); ; n++ {
		if _, err := lines.ReadSlice('\n'); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if n > 1 {
			answer = stream.Ack{Through: n - 1}.Append(answer[:0])
		}
		if lines.Buffered() > 0 {
			continue
		}
		if _, err := nc.Write(answer); err != nil {
			return err
		}
	}
}
