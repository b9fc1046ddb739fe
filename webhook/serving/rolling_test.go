package serving

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// podVariable makes a process of this test a pod, whose rules it holds.
const podVariable = "SERVING_TEST_POD"

func TestMain(m *testing.M) {
	if rules := os.Getenv(podVariable); rules != "" {
		if err := runPod(rules); err != nil {
			fmt.Fprintln(os.Stderr, "pod:", err)
			os.Exit(1)
		}
		return
	}
	code := m.Run()
	if left := leaked(); code == 0 && left != "" {
		fmt.Fprintln(os.Stderr, "goroutines are left:\n"+left)
		code = 1
	}
	os.Exit(code)
}

// leaked returns the goroutines of this package that do not end soon.
func leaked() (left string) {
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); runtime.Gosched() {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		left = ""
		for stack := range strings.SplitSeq(string(stacks), "\n\n") {
			if strings.Contains(stack, "webhook/serving.") && !strings.Contains(stack, "TestMain") {
				left += stack + "\n\n"
			}
		}
		if left == "" {
			return ""
		}
	}
	return left
}

// podRules are those that a pod keeps to.
type podRules struct {
	Dir           string        // of its certificate
	ShutdownDelay time.Duration // negative: none
	ReadyAtOnce   bool          // the probe's answer is always yes
	DieAtOnce     bool          // what is in flight is cut off
}

// loading is how long a pod takes until it has its policies. A review without is refused.
const loading = 300 * time.Millisecond

// runPod serves reviews and, at another address, readiness, until SIGTERM.
func runPod(rules string) error {
	var p podRules
	if err := json.Unmarshal([]byte(rules), &p); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var loaded atomic.Bool
	time.AfterFunc(loading, func() { loaded.Store(true) })
	logs := newLogged()
	s, err := New(Config{
		Address: "127.0.0.1:0", TLSDir: p.Dir, ShutdownDelay: p.ShutdownDelay, Log: logs.log(),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, err := io.Copy(io.Discard, r.Body); err != nil || !loaded.Load() {
				http.Error(w, "no policies", http.StatusInternalServerError)
				return
			}
			time.Sleep(rand.N(20 * time.Millisecond)) // as a review takes
			io.WriteString(w, "allowed")
		}),
		WaitFor: []Check{{Name: "policies", Ready: func(context.Context) error {
			if !loaded.Load() {
				return errors.New("not loaded")
			}
			return nil
		}}},
	})
	if err != nil {
		return err
	}
	probes, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go http.Serve(probes, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := s.Ready(r); err != nil && !p.ReadyAtOnce {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	}))
	if p.DieAtOnce {
		context.AfterFunc(ctx, s.Stop)
	}
	result := make(chan error, 1)
	go func() { result <- s.Run(ctx) }()
	if !logs.await("msg=serving", 1) {
		return errors.New("not serving")
	}
	fmt.Println(s.Addr(), probes.Addr())
	if err := <-result; err != nil && !p.DieAtOnce {
		return err
	}
	return nil
}

// pod is a process that serves.
type pod struct {
	cmd             *exec.Cmd
	address, probes string
	ready           atomic.Bool // as far as the balancer knows
	change          chan struct{}
	failed          strings.Builder // what it wrote to stderr
}

func startPod(t *testing.T, rules podRules) *pod {
	t.Helper()
	text, err := json.Marshal(rules)
	if err != nil {
		t.Fatal(err)
	}
	p := &pod{cmd: exec.Command(os.Args[0]), change: make(chan struct{}, 1)}
	p.cmd.Env = append(os.Environ(), podVariable+"="+string(text))
	p.cmd.Stderr = &p.failed
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.cmd.Process.Kill(); p.cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("pod: %v\n%s", err, &p.failed)
	}
	p.address, p.probes, _ = strings.Cut(strings.TrimSpace(line), " ")
	return p
}

func (p *pod) terminate(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("pod: %v\n%s", err, &p.failed)
	}
}

// balancer does what kube-proxy does: it sends each new connection to a pod that was ready
// when it last asked, and keeps the connections that there are.
type balancer struct {
	net.Listener
	work sync.WaitGroup

	mu   sync.Mutex
	pods []*pod // guarded by mu
	next int    // guarded by mu
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

// add takes a pod in, and asks it every 100 ms until the test ends whether it is ready.
func (b *balancer) add(t *testing.T, p *pod) {
	b.mu.Lock()
	b.pods = append(b.pods, p)
	b.mu.Unlock()
	tick := time.NewTicker(100 * time.Millisecond)
	client := &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	b.work.Go(func() {
		defer tick.Stop()
		for {
			response, err := client.Get("http://" + p.probes + "/readyz")
			if err == nil {
				response.Body.Close()
			}
			p.ready.Store(err == nil && response.StatusCode == http.StatusOK)
			select {
			case p.change <- struct{}{}:
			default:
			}
			select {
			case <-tick.C:
			case <-t.Context().Done():
				return
			}
		}
	})
	for !p.ready.Load() {
		<-p.change
	}
}

func (b *balancer) pick() *pod {
	b.mu.Lock()
	defer b.mu.Unlock()
	for range b.pods {
		b.next = (b.next + 1) % len(b.pods)
		if p := b.pods[b.next]; p.ready.Load() {
			return p
		}
	}
	return nil
}

func (b *balancer) forward(client net.Conn) {
	defer client.Close()
	p := b.pick()
	if p == nil {
		return
	}
	server, err := net.Dial("tcp", p.address)
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

// reviews sends reviews to the balancer until stop is closed, as many API servers would, and
// returns what became of them.
func reviews(t *testing.T, url string, of pair, stop chan struct{}) (sent int, failures []string) {
	var mu sync.Mutex
	var clients sync.WaitGroup
	send := func(client *http.Client) {
		for {
			select {
			case <-stop:
				return
			default:
			}
			response, err := client.Post(url, "application/json", strings.NewReader(`{"kind":"AdmissionReview"}`))
			got := fmt.Sprint(err)
			if err == nil {
				body, err := io.ReadAll(response.Body)
				response.Body.Close()
				got = string(body)
				if err != nil {
					got = err.Error()
				}
			}
			mu.Lock()
			sent++
			if got != "allowed" {
				failures = append(failures, got)
			}
			mu.Unlock()
		}
	}
	http2, http1, fresh := of.client(t, true), of.client(t, false), of.client(t, false)
	http1.Transport.(*http.Transport).MaxIdleConnsPerHost = 9
	fresh.Transport.(*http.Transport).DisableKeepAlives = true
	for _, client := range []*http.Client{http2, http2, http2, http1, http1, http1, fresh, fresh} {
		clients.Go(func() { send(client) })
	}
	clients.Wait()
	return sent, failures
}

// No review fails while pods are replaced one after the other. Without one of the rules,
// some do.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	const delay = 1500 * time.Millisecond // on a busy machine the balancer is late
	for name, tt := range map[string]struct {
		rules podRules
		fails bool
	}{
		"by the rules":          {podRules{ShutdownDelay: delay}, false},
		"without ShutdownDelay": {podRules{ShutdownDelay: -1}, true},
		"cut off":               {podRules{ShutdownDelay: delay, DieAtOnce: true}, true},
		"ready before it is":    {podRules{ShutdownDelay: delay, ReadyAtOnce: true}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			restarts := 5
			if testing.Short() || tt.fails {
				restarts = 2
			}
			of := newPair(t)
			tt.rules.Dir = t.TempDir()
			of.secret(t, tt.rules.Dir)
			b := newBalancer(t)
			var pods []*pod
			for range 2 {
				first := tt.rules
				first.ReadyAtOnce = false // nothing is asked yet
				p := startPod(t, first)
				b.add(t, p)
				pods = append(pods, p)
			}
			var sent, made int
			var failures []string
			// Whether a review meets the moment that a broken rule leaves open is chance.
			for round := 0; round == 0 || tt.fails && len(failures) == 0 && round < 10; round++ {
				stop := make(chan struct{})
				var work sync.WaitGroup
				work.Go(func() {
					var more int
					more, failures = reviews(t, "https://"+b.Addr().String()+"/", of, stop)
					sent += more
				})
				for range restarts {
					p := startPod(t, tt.rules)
					b.add(t, p)
					pods[0].terminate(t)
					pods = append(pods[1:], p)
				}
				close(stop)
				work.Wait()
				made += restarts
			}
			t.Logf("%d restarts: %d of %d reviews failed", made, len(failures), sent)
			if sent < 10*made { // a slow machine sends few
				t.Errorf("only %d reviews were sent", sent)
			}
			if tt.fails && len(failures) == 0 {
				t.Error("no review failed: the test would not notice the rule")
			}
			if !tt.fails && len(failures) > 0 {
				t.Errorf("%d of %d reviews failed, such as %q", len(failures), sent, failures[:min(len(failures), 5)])
			}
		})
	}
}
