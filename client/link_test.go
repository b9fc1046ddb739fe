package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docket-export/docket/decision/stream"
)

// What the exporter may not say ends the connection, and counts for nothing.
func TestExporterThatTalksNonsense(t *testing.T) {
	const answer = `{"docket":{"version":1,"acked":0}}` + "\n"
	for name, test := range map[string]struct{ says, want string }{
		"nothing":              {"", "docket closed the connection"},
		"not JSON":             {"hello\n", "not valid JSON"},
		"another version":      {`{"docket":{"version":2,"acked":0}}` + "\n", "version 2 is not supported"},
		"an ack at once":       {`{"ack":1}` + "\n", "answered with stream.Ack"},
		"a reason":             {`{"docket":{"version":1,"error":"too many"}}` + "\n", "docket closed the connection: too many"},
		"a long line":          {strings.Repeat("x", stream.MaxReply+1), "longer than"},
		"ack of nothing":       {answer + `{"ack":3}` + "\n", "docket acknowledged line 3, which was never sent"},
		"refusal of nothing":   {answer + `{"refused":{"seq":9,"reason":"TooLarge"}}` + "\n", "docket refused line 9, which was never sent"},
		"two answers":          {answer + answer, "unexpected stream.Answer"},
		"a reason after lines": {answer + `{"docket":{"version":1,"error":"bye"}}` + "\n", "closed the connection: bye"},
	} {
		t.Run(name, func(t *testing.T) {
			why := make(chan error, 100)
			s, err := NewSender(SenderConfig{
				Dial: func(context.Context) (net.Conn, error) {
					ours, theirs := net.Pipe()
					go func() {
						defer theirs.Close()
						in := bufio.NewReader(theirs)
						if _, err := in.ReadString('\n'); err != nil {
							return
						}
						go io.Copy(io.Discard, in)
						_, _ = io.WriteString(theirs, test.says)
					}()
					return ours, nil
				},
				Disconnected: func(err error, _ time.Duration) { why <- err },
				Acked:        func(n uint64) { t.Errorf("Acked: got %d, want none", n) },
			})
			if err != nil {
				t.Fatal(err)
			}
			send(t, s, 1, 1)
			if err := <-why; err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Disconnected: got %v, want %q", err, test.want)
			}
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			if left, _ := s.Close(ctx); left != 1 {
				t.Errorf("Close: got %d left, want 1", left)
			}
		})
	}
}

// scripted is a sender whose exporter greets it and then does as script says.
func scripted(t *testing.T, config SenderConfig, script func(nc net.Conn, in *bufio.Reader)) *Sender {
	t.Helper()
	config.Dial = func(context.Context) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go func() {
			defer theirs.Close()
			in := bufio.NewReader(theirs)
			if _, err := in.ReadString('\n'); err != nil {
				return
			}
			_, _ = theirs.Write(stream.Answer{}.Append(nil))
			script(theirs, in)
		}()
		return ours, nil
	}
	s, err := NewSender(config)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A refusal needs no ack of its own, and the order of the two does not matter.
func TestRefusalsAloneHandleLines(t *testing.T) {
	var acked []uint64
	s := scripted(t, SenderConfig{Acked: func(n uint64) { acked = append(acked, n) }}, func(nc net.Conn, in *bufio.Reader) {
		for range 3 {
			if _, err := in.ReadString('\n'); err != nil {
				return
			}
		}
		_, _ = io.WriteString(nc, `{"refused":{"seq":2,"reason":"TooLarge"}}`+"\n"+`{"ack":1}`+"\n"+`{"refused":{"seq":3,"reason":"TooLarge"}}`+"\n")
		_, _ = io.Copy(io.Discard, in)
	})
	send(t, s, 1, 3)
	closeAll(t, s)
	if fmt.Sprint(acked) != "[2 3]" {
		t.Errorf("Acked: got %v, want [2 3]", acked)
	}
}

// An exporter that takes the hello and says nothing is left after a while, and
// tried again.
func TestExporterThatDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var ends []time.Duration
		s, err := NewSender(SenderConfig{
			Dial: func(context.Context) (net.Conn, error) {
				ours, theirs := net.Pipe()
				go func() {
					_, _ = io.Copy(io.Discard, theirs)
					theirs.Close()
				}()
				return ours, nil
			},
			Disconnected: func(err error, _ time.Duration) {
				if !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("Disconnected: got %v, want that the time is over", err)
				}
				ends = append(ends, time.Since(began))
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 2*answerTimeout+lastPause)
		defer cancel()
		<-ctx.Done()
		_, _ = s.Close(ctx)
		if len(ends) < 2 || ends[0] != answerTimeout {
			t.Errorf("connections ended after %v, want the first after %v and a second", ends, answerTimeout)
		}
	})
}
