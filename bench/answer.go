package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"

	"github.com/docket-export/docket/decision/stream"
)

// answerMain is a server that speaks the stream protocol and does nothing else: lines
// are acknowledged unseen, as many at once as have arrived. What it costs to talk to
// it is the floor of a round trip. It serves so many producers as are named behind the
// socket, and ends with the last of them.
func answerMain(_ context.Context, args []string, _ io.Writer) error {
	if len(args) != 2 {
		return errors.New("want a socket and the number of producers")
	}
	count, err := strconv.Atoi(args[1])
	if err != nil {
		return fmt.Errorf("number of producers: %w", err)
	}
	l, err := net.Listen("unix", args[0])
	if err != nil {
		return err
	}
	errs := make([]error, count+1)
	var serving sync.WaitGroup
	for i := range count {
		nc, err := l.Accept()
		if err != nil {
			errs[i] = err
			break
		}
		serving.Go(func() { errs[i] = answer(nc) })
	}
	errs[count] = l.Close() // which removes the socket
	serving.Wait()
	return errors.Join(errs...)
}

// answer serves one producer until it ends its connection.
func answer(nc net.Conn) error {
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
