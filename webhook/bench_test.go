package webhook

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/docket-export/docket/client"
	"github.com/docket-export/docket/decision"
	"github.com/docket-export/docket/decision/stream"
)

// BenchmarkLog compares a handler with the same that is logged, in the serving of a review:
// what is done behind the answer, by the other processors, is not in the time.
func BenchmarkLog(b *testing.B) {
	next := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, denied)
	})
	all := []decision.Decision{decision.Deny, decision.Allow}
	for _, size := range []int{1 << 10, 10 << 10, 1 << 20} {
		body := strings.Replace(review, "s3cret", `","more":"`+strings.Repeat("x", size-len(review)), 1)
		for name, log := range map[string]func(*client.Client) http.Handler{
			"direct":   func(*client.Client) http.Handler { return next },
			"recorded": func(c *client.Client) http.Handler { return Log(next, c, Options{Decisions: all}) },
			"passed":   func(c *client.Client) http.Handler { return Log(next, c, Options{Decisions: all[1:]}) },
		} {
			b.Run(fmt.Sprintf("%dKiB/%s", size>>10, name), func(b *testing.B) {
				c := ackingClient(b)
				benchmarkServing(b, log(c), body)
				b.StopTimer()
				if _, err := c.Close(context.Background()); err != nil {
					b.Error(err)
				}
				if lost := c.Stats().Lost; len(lost) > 0 {
					b.Logf("lost: %v", lost)
				}
			})
		}
	}
}

func benchmarkServing(b *testing.B, h http.Handler, body string) {
	r, err := http.NewRequest(http.MethodPost, "/validate", http.NoBody)
	if err != nil {
		b.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	w := discarding{header: http.Header{}}
	text := strings.NewReader(body)
	b.ReportAllocs()
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		text.Reset(body)
		r.Body = io.NopCloser(text)
		h.ServeHTTP(w, r)
	}
}

type discarding struct{ header http.Header }

func (d discarding) Header() http.Header         { return d.header }
func (d discarding) Write(p []byte) (int, error) { return len(p), nil }
func (d discarding) WriteHeader(int)             {}

// ackingClient is one whose exporter only counts.
func ackingClient(b *testing.B) *client.Client {
	dial := func(context.Context) (net.Conn, error) {
		near, far := net.Pipe()
		go ackAll(far)
		return near, nil
	}
	c, err := client.New(client.Config{Address: "test://", MaxBufferedBytes: 64 << 20, Transports: map[string]client.Transport{
		"test": func(string, *client.Config) (client.Dial, error) { return dial, nil },
	}})
	if err != nil {
		b.Fatal(err)
	}
	return c
}

func ackAll(nc net.Conn) {
	defer nc.Close()
	in := bufio.NewReader(nc)
	if _, err := in.ReadString('\n'); err != nil {
		return
	}
	_, _ = nc.Write(stream.Answer{}.Append(nil))
	buf, n := make([]byte, 256<<10), uint64(0)
	for {
		got, err := in.Read(buf)
		if err != nil {
			return
		}
		n += uint64(bytes.Count(buf[:got], []byte{'\n'}))
		_, _ = nc.Write(stream.Ack{Through: n}.Append(nil))
	}
}
