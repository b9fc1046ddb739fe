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

	"github.com/docket-export/docket/client/clienttest/await"
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

// leaked returns the goroutines of this package that do not end: a minute or more only bounds
// a hang, as no test has a deadline here.
func leaked() (left string) {
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		left = ""
		for stack := range strings.SplitSeq(stacks(), "\n\n") {
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

// stacks are those of all goroutines.
func stacks() string {
	text := make([]byte, 1<<20)
	return string(text[:runtime.Stack(text, true)])
}

// podRules are those that a pod keeps to.
type podRules struct {
	Dir           string        // of its certificate
	ShutdownDelay time.Duration // negative: none
	ReadyAtOnce   bool          // the probe's answer is always yes
	DieAtOnce     bool          // what is in flight is cut off
	Steps         bool          // halves of ShutdownDelay end with what they are for, not with time
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
	var refusals atomic.Int64
	go http.Serve(probes, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := s.Ready(r); err != nil && !p.ReadyAtOnce {
			refusals.Add(1)
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	}))
	if p.Steps {
		steps := []func() bool{
			// Who asks again has heard the first answer. Those before Ready are not counted.
			func() bool { return refusals.Load() >= 2 },
			func() bool { return s.connections() == 0 },
		}
		s.after = func(time.Duration) <-chan time.Time {
			over := steps[0]
			steps = steps[1:]
			refusals.Store(0)
			passed := make(chan time.Time)
			go func() {
				for !over() {
					time.Sleep(time.Millisecond)
				}
				close(passed)
			}()
			return passed
		}
	}
	if p.DieAtOnce {
		context.AfterFunc(ctx, s.Stop)
	}
	result := make(chan error, 1)
	go func() { result <- s.Run(ctx) }()
	if !logs.comes("msg=serving", 1, nil) {
		return errors.New("not serving")
	}
	fmt.Println(s.Addr(), probes.Addr())
	if err := <-result; err != nil && !p.DieAtOnce {
		return err
	}
	return nil
}

// connections is how many are open.
func (s *Server) connections() int {
	l := s.listener.Load()
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.conns)
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
	client := &http.Client{Timeout: await.Left(t), Transport: &http.Transport{DisableKeepAlives: true}}
	b.work.Go(func() {
		defer tick.Stop()
		for {
			response, err := client.Get("http://" + p.probes + "/readyz")
			if err == nil {
				response.Body.Close()
			}
			b.mu.Lock() // no connection is on its way to a pod that is not ready
			p.ready.Store(err == nil && response.StatusCode == http.StatusOK)
			b.mu.Unlock()
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

// dial connects to the next pod that is ready.
func (b *balancer) dial() (net.Conn, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for range b.pods {
		b.next = (b.next + 1) % len(b.pods)
		if p := b.pods[b.next]; p.ready.Load() {
			return net.Dial("tcp", p.address)
		}
	}
	return nil, errors.New("no pod is ready")
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
	http2, fresh := of.client(t, true), of.client(t, false)
	fresh.Transport.(*http.Transport).DisableKeepAlives = true
	clients1 := []*http.Client{of.client(t, false), of.client(t, false), of.client(t, false)} // no connection of theirs rests
	for _, client := range append(clients1, http2, http2, http2, fresh, fresh) {
		clients.Go(func() { send(client) })
	}
	clients.Wait()
	return sent, failures
}

// No review fails while pods are replaced one after the other.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	r := newRollout(t, podRules{Steps: true, ShutdownDelay: time.Hour})
	if failures := r.replace(t, 2); len(failures) > 0 || r.sent == 0 {
		t.Errorf("%d of %d reviews failed, such as %q", len(failures), r.sent, failures[:min(len(failures), 5)])
	}
}

// rollout is two pods behind a balancer, which give way to others with rules.
type rollout struct {
	rules podRules
	of    pair
	b     *balancer
	pods  []*pod
	sent  int // reviews
}

func newRollout(t *testing.T, rules podRules) *rollout {
	t.Helper()
	r := &rollout{rules: rules, of: newPair(t), b: newBalancer(t)}
	r.rules.Dir = t.TempDir()
	r.of.secret(t, r.rules.Dir)
	for range 2 {
		first := r.rules
		first.ReadyAtOnce = false // nothing is asked yet
		p := startPod(t, first)
		r.b.add(t, p)
		r.pods = append(r.pods, p)
	}
	return r
}

// replace replaces so many pods under load, and returns the reviews that failed.
func (r *rollout) replace(t *testing.T, pods int) (failures []string) {
	t.Helper()
	stop := make(chan struct{})
	var work sync.WaitGroup
	work.Go(func() {
		var more int
		more, failures = reviews(t, "https://"+r.b.Addr().String()+"/", r.of, stop)
		r.sent += more
	})
	for range pods {
		p := startPod(t, r.rules)
		r.b.add(t, p)
		r.pods[0].terminate(t)
		r.pods = append(r.pods[1:], p)
	}
	close(stop)
	work.Wait()
	return failures
}
