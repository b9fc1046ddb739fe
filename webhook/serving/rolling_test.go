package serving

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/docket-export/docket/client/clienttest/await"
)

// balancer does what kube-proxy does: it sends each new connection to a pod that it knows to
// be ready, and keeps the connections that there are.
type balancer struct {
	net.Listener
	work sync.WaitGroup

	mu   sync.Mutex
	pods []*running // guarded by mu
	next int        // guarded by mu
}

func newBalancer(t *testing.T) *balancer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &balancer{Listener: l}
	b.work.Go(func() {
		for {
			c, err := b.Accept()
			if err != nil {
				return
			}
			b.work.Go(func() { b.forward(c) })
		}
	})
	t.Cleanup(func() { b.Close(); b.work.Wait() })
	return b
}

// ask has the balancer use those of pods that are ready. No connection is on its way to another
// one then.
func (b *balancer) ask(t *testing.T, pods ...*running) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pods = nil
	for _, p := range pods {
		if probe(t, p.Ready) == nil {
			b.pods = append(b.pods, p)
		}
	}
}

func (b *balancer) dial() (net.Conn, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.next++
	return net.Dial("tcp", b.pods[b.next%len(b.pods)].Addr().String())
}

func (b *balancer) forward(client net.Conn) {
	defer client.Close()
	server, err := b.dial()
	if err != nil {
		return
	}
	defer server.Close()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
		both.Go(func() {
			io.Copy(way[0], way[1])
			way[0].(*net.TCPConn).CloseWrite()
		})
	}
	both.Wait()
}

// No review fails while pods are replaced one after the other, and the halves of ShutdownDelay
// end when they have done what they are for.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	of := newPair(t)
	newPod := func() *running {
		r := startWith(t, of, Config{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			io.WriteString(w, "allowed")
		})})
		passes(t, r.Ready)
		return r
	}
	b := newBalancer(t)
	pods := []*running{newPod(), newPod()}
	b.ask(t, pods...)

	stop := make(chan struct{})
	var clients sync.WaitGroup
	var mu sync.Mutex
	sent, failures := 0, []string(nil)
	send := func(client *http.Client) {
		for {
			select {
			case <-stop:
				return
			default:
			}
			response, err := client.Post("https://"+b.Addr().String()+"/", "application/json", strings.NewReader(`{"kind":"AdmissionReview"}`))
			got := fmt.Sprint(err)
			if err == nil {
				body, err := io.ReadAll(response.Body)
				response.Body.Close()
				got = fmt.Sprint(string(body), err)
			}
			mu.Lock()
			sent++
			if got != "allowed<nil>" {
				failures = append(failures, got)
			}
			mu.Unlock()
		}
	}
	fresh := of.client(t, false)
	fresh.Transport.(*http.Transport).DisableKeepAlives = true
	http2 := of.client(t, true)
	for _, client := range []*http.Client{of.client(t, false), of.client(t, false), of.client(t, false), http2, http2, fresh, fresh} {
		clients.Go(func() { send(client) })
	}
	for range 3 {
		old, next := pods[0], newPod()
		pods = []*running{pods[1], next}
		b.ask(t, old, pods[0], next)
		old.cancel()
		old.logs.wait(t, "stopping", 1)
		b.ask(t, old, pods[0], next)
		old.half(t)
		await.Until(t, "clients to have left", func() bool {
			l := old.listener.Load()
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.all == 0
		})
		old.half(t)
		errorIs(t, within(t, old.result))
	}
	close(stop)
	clients.Wait()
	if len(failures) > 0 || sent == 0 {
		t.Errorf("%d of %d reviews failed, such as %q", len(failures), sent, failures[:min(len(failures), 5)])
	}
}
