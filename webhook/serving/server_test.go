package serving

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docket-export/docket/client/clienttest/await"
)

// Told to stop, a server is not ready at once, serves on, asks clients to leave, finishes
// what is in flight, and then drains.
func TestStop(t *testing.T) {
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			began, release := make(chan struct{}), make(chan struct{})
			var drained, finished bool
			mux := http.NewServeMux()
			mux.HandleFunc("/", func(http.ResponseWriter, *http.Request) {})
			mux.HandleFunc("/long", func(w http.ResponseWriter, r *http.Request) {
				close(began)
				<-release
				if r.Context().Err() != nil {
					t.Error("the context of a request in flight ended")
				}
				finished = true
				io.WriteString(w, "done")
			})
			r := start(t, Config{Handler: mux, Drain: func(ctx context.Context) error {
				drained = true
				if !finished {
					t.Error("drained before what is in flight was finished")
				}
				return ctx.Err()
			}})
			client := r.pair.client(t, http2)
			passes(t, r.Ready)
			answer := make(chan string, 1)
			go func() { answer <- get(client, r.url()+"long") }()
			within(t, began)
			r.cancel()
			r.logs.wait(t, "stopping", 1)
			if err := probe(t, r.Ready); err == nil || !strings.Contains(err.Error(), "stopping") {
				t.Errorf("ready once it was told to stop: got %v, want that it is stopping", err)
			}
			passes(t, r.Live)
			if got := get(r.pair.client(t, http2), r.url()); got != "" {
				t.Errorf("a new client within ShutdownDelay: got %q", got)
			}
			r.half(t)
			r.half(t)
			close(release)
			if got := within(t, answer); got != "done" {
				t.Errorf("request in flight: got %q", got)
			}
			if err := within(t, r.result); err != nil {
				t.Errorf("Run: %v", err)
			}
			if !drained {
				t.Error("Drain was not called")
			}
			if err := probe(t, r.Live); err == nil {
				t.Error("live after the end")
			}
		})
	}
}

// get returns the body of the answer, or the error.
func get(client *http.Client, url string) string {
	response, err := client.Get(url)
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err.Error()
	}
	return string(body)
}

// hanging is a handler that answers when it is told to, or its request's context ends.
type hanging struct {
	began   chan struct{} // one value for each request
	release chan struct{}
	left    chan error // how the contexts of requests ended
}

func newHanging() hanging {
	return hanging{began: make(chan struct{}, 9), release: make(chan struct{}), left: make(chan error, 9)}
}

func (h hanging) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	h.began <- struct{}{}
	select {
	case <-h.release:
	case <-r.Context().Done():
	}
	h.left <- r.Context().Err()
}

// Requests that take longer than FinishTimeout are cut off, and counted.
func TestFinishTimeout(t *testing.T) {
	t.Parallel()
	h := newHanging()
	r := start(t, Config{Handler: h, ShutdownDelay: -1, FinishTimeout: 20 * time.Millisecond})
	r.after = func(time.Duration) <-chan time.Time { return time.After(0) }
	var clients sync.WaitGroup
	for _, http2 := range []bool{true, false} {
		clients.Go(func() {
			if got := get(r.pair.client(t, http2), r.url()); got == "" {
				t.Error("the client got an answer")
			}
		})
		within(t, h.began)
	}
	r.cancel()
	errorIs(t, within(t, r.result), "2 requests were cut off")
	clients.Wait()
}

// A handler may have something to drain even if its client is gone.
func TestDrainWaitsForHandlersWithoutClient(t *testing.T) {
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			began, noticed, release, drained := make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan struct{}, 1)
			r := start(t, Config{
				FinishTimeout: time.Hour,
				Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					close(began)
					<-r.Context().Done()
					close(noticed)
					<-release
				}),
				Drain: func(context.Context) error { drained <- struct{}{}; return nil },
			})
			ctx, leave := context.WithCancel(t.Context())
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url(), nil)
			if err != nil {
				t.Fatal(err)
			}
			gone := make(chan struct{})
			go func() {
				defer close(gone)
				if got := do(r.pair.client(t, http2), request); !strings.Contains(got, "canceled") {
					t.Errorf("the client got %q", got)
				}
			}()
			within(t, began)
			leave()
			within(t, gone)
			within(t, noticed)
			r.cancel()
			r.half(t)
			r.half(t)
			refused(t, r.Addr().String())
			waits := "http.(*Server).Shutdown("
			if http2 { // Shutdown does not wait for streams that were reset
				waits = "serving.(*Server).handlersReturned("
			}
			await.Until(t, "the server to wait for the handler", func() bool { // no other server runs beside this test
				stacks := make([]byte, 1<<20)
				return len(drained) > 0 || strings.Contains(string(stacks[:runtime.Stack(stacks, true)]), waits)
			})
			if len(drained) > 0 {
				t.Error("drained while a handler was running")
			}
			close(release)
			errorIs(t, within(t, r.result))
			within(t, drained)
		})
	}
}

// refused returns once nobody listens at address any more.
func refused(t *testing.T, address string) {
	t.Helper()
	await.Until(t, "nobody to listen", func() bool {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
		}
		return err != nil
	})
}

// In the first half of ShutdownDelay connections are kept, in the second half each answer
// sends its client away, and no request fails on the way.
func TestClientsAreSentAway(t *testing.T) {
	t.Parallel()
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t, Config{Handler: http.NotFoundHandler()})
			client := r.pair.client(t, http2)
			ask := func() (reused bool) {
				t.Helper()
				trace := &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { reused = i.Reused }}
				request, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), http.MethodPost, r.url(), strings.NewReader("{}"))
				if err != nil {
					t.Fatal(err)
				}
				response, err := client.Do(request)
				if err != nil {
					t.Fatal(err)
				}
				io.Copy(io.Discard, response.Body)
				response.Body.Close()
				return reused
			}
			ask()
			r.cancel()
			r.logs.wait(t, "stopping", 1)
			for range 3 {
				if !ask() {
					t.Error("first half: the client opened another connection")
				}
			}
			r.half(t)
			await.Until(t, "clients to be sent away", r.goodbye.Load)
			ask()
			for range 3 {
				if ask() && !http2 { // of GOAWAY the client learns a little after the answer
					t.Error("second half: the client kept its connection")
				}
			}
			if http2 {
				await.Until(t, "the client to open another connection", func() bool { return !ask() })
			}
			r.half(t)
			errorIs(t, within(t, r.result))
		})
	}
}

// What is to stop before it runs does not listen, and drains.
func TestRunOnce(t *testing.T) {
	t.Parallel()
	drained := errors.New("drained")
	fresh := func() *Server {
		s, err := New(Config{Address: "127.0.0.1:0", TLSDir: t.TempDir(), Handler: http.NotFoundHandler(), Drain: func(context.Context) error { return drained }})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	s := fresh()
	if err := s.Run(done); !errors.Is(err, drained) || s.Addr() != nil {
		t.Errorf("with a context that is done: got %v, listening at %v", err, s.Addr())
	}
	errorIs(t, s.Run(t.Context()), "called before")
	s = fresh()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	s.config.Address = taken.Addr().String()
	errorIs(t, s.Run(t.Context()), "in use", "drained")
	errorIs(t, probe(t, s.Live), "has ended")
	errorIs(t, probe(t, s.Ready), "not listen")
}

// Run ends, and drains, when its listener fails.
func TestListenerFails(t *testing.T) {
	t.Parallel()
	drained := false
	r := start(t, Config{Handler: http.NotFoundHandler(), Drain: func(context.Context) error { drained = true; return nil }})
	r.listener.Load().Close()
	errorIs(t, within(t, r.result), "closed")
	if !drained {
		t.Error("Drain was not called")
	}
}

// The context of Drain has DrainTimeout.
func TestDrainTimeout(t *testing.T) {
	t.Parallel()
	r := start(t, Config{Handler: http.NotFoundHandler(), DrainTimeout: time.Millisecond, Drain: func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}})
	r.cancel()
	r.half(t)
	r.half(t)
	errorIs(t, within(t, r.result), "deadline exceeded")
}

func TestConfig(t *testing.T) {
	t.Parallel()
	_, err := New(Config{WaitFor: []Check{{}}})
	errorIs(t, err, "no Handler", "no TLSDir", "WaitFor[0]: ")
	// Kubernetes kills a pod after 30 seconds.
	c := Config{DrainTimeout: -1}
	c.setDefaults()
	if sum := c.ShutdownDelay + c.FinishTimeout + c.DrainTimeout; c.ShutdownDelay != 10*time.Second || c.DrainTimeout <= 0 || sum > 28*time.Second {
		t.Errorf("got a delay of %s and a stop of %s, want 10s and less than 28s", c.ShutdownDelay, sum)
	}
}
