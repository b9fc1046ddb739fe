//go:build soak

package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/docket-export/docket/cli/builtin"
	"github.com/docket-export/docket/cli/internal/command"
	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/internal/testcli"
)

// attack is what somebody does to a docket who wants it to run out of memory.
type attack struct {
	name string
	// sources is what the configuration has beside the socket, and limits its limits.
	sources, limits string
	// prepare is called before docket starts.
	prepare func(*arena)
	// run attacks until it is done, or ctx is.
	run func(ctx context.Context, a *arena)
}

// TestMemoryCeiling is promise 10: whatever peers send, docket lives within 64 MiB, and a
// producer of another identity that behaves well has every line acknowledged, over one
// connection that is never closed. The log has what each attack has cost.
func TestMemoryCeiling(t *testing.T) {
	t.Parallel() // one docket after the other waits here
	if os.Getuid() != 0 && os.Getenv("CI") != "true" {
		t.Skip("only root can make a control group and be two users")
	}
	docket := releasedDocket(t)
	kafka := newBroker(t)
	attacks := slices.Concat(streamAttacks(), refusedAttacks(), fileAttacks(), httpAttacks(), sinkAttacks())
	t.Logf("%-44s %7s %7s  %s", "attack", "limit", "peak", "p50 and p99 of the good producer, quiet and under attack")
	for _, at := range attacks {
		t.Run(at.name, func(t *testing.T) {
			newArena(t, docket, at, kafka).fight(at)
		})
	}
}

// releasedDocket is a docket as it is shipped: the race detector, and the tests in this
// program, take memory of their own. Its packages are those that make test has compiled.
func releasedDocket(t *testing.T) string {
	t.Helper()
	if *program != "docket" {
		return *program
	}
	file := filepath.Join(t.TempDir(), "docket")
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-ldflags", "-s -w", "-o", file, "../cmd/docket")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return file
}

func newBroker(t *testing.T) string {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(3, "decisions"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	return cluster.ListenAddrs()[0]
}

// arena is a docket in a memory group, and a good producer beside it.
type arena struct {
	t      *testing.T
	dir    string
	socket string
	admin  string
	// ceiling is the memory that docket says it stays below, and the limit that it has.
	ceiling int64
	other   string // another address that nobody listens at
	group   *limitedGroup
	cmd     *exec.Cmd
	good    *goodProducer
}

func newArena(t *testing.T, docket string, at attack, kafka string) *arena {
	t.Helper()
	dir, err := os.MkdirTemp("", "docket-ceiling-") //nolint:usetesting // another user has to get through to the socket, whose path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	a := &arena{t: t, dir: dir, socket: filepath.Join(dir, "docket.sock")}
	for _, address := range []*string{&a.admin, &a.other} {
		if *address, err = testcli.FreeAddress(); err != nil {
			t.Fatal(err)
		}
	}
	siem := "http://" + a.other + "/nobody"
	if !strings.Contains(at.name, "sinks down") {
		server := newSIEM(t)
		siem = server
	} else {
		kafka = a.other
	}
	writeFile(t, filepath.Join(dir, "docket.yaml"), strings.NewReplacer("SOURCES", strings.ReplaceAll(strings.ReplaceAll(at.sources, "OTHER", a.other), "DIR", dir),
		"LIMITS", at.limits, "DIR", dir, "ADMIN", a.admin, "KAFKA", kafka, "SIEM", siem).Replace(ceilingConfig))
	if at.prepare != nil {
		at.prepare(a)
	}
	cfg, err := command.LoadConfig(builtin.Kinds(), filepath.Join(dir, "docket.yaml"), "")
	if err != nil {
		t.Fatal(err)
	}
	a.ceiling = max(ceilingLimit, exporter.MemoryCeiling(cfg.Memory()))
	a.group = newLimitedGroup(t, a.ceiling)
	a.start(docket)
	return a
}

// newSIEM takes everything that it is sent.
func newSIEM(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) })}
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
	return "http://" + l.Addr().String() + "/"
}

func (a *arena) start(docket string) {
	a.t.Helper()
	log, err := os.Create(filepath.Join(a.dir, "log"))
	if err != nil {
		a.t.Fatal(err)
	}
	defer log.Close()
	a.cmd = a.group.command(docket, "run", "-f", filepath.Join(a.dir, "docket.yaml"))
	a.cmd.Stderr = log
	if err := a.cmd.Start(); err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() {
		a.cmd.Process.Kill() // does nothing once it has ended
		a.cmd.Wait()
		if a.t.Failed() {
			showLog(a.t, log.Name())
		}
	})
	eventually(a.t, "a socket", func() bool {
		nc, err := net.Dial("unix", a.socket)
		if err == nil {
			nc.Close()
		}
		return err == nil || a.group.kills() > 0
	})
}

const (
	// quietTime is how long the good producer is watched without an attack.
	quietTime = 300 * time.Millisecond
	// attackTime is how long an attack lasts.
	attackTime = 2 * time.Second
)

// fight lets the attack happen beside a good producer, and sees who lives.
func (a *arena) fight(at attack) {
	if a.good = dialGood(a.t, a.socket, "good"); a.good == nil {
		return
	}
	stop := a.sample()
	quiet := a.good.watch(func() { time.Sleep(quietTime) })
	ctx, cancel := context.WithTimeout(a.t.Context(), attackTime)
	defer cancel()
	attacked := a.good.watch(func() {
		var newcomer sync.WaitGroup
		defer newcomer.Wait()
		newcomer.Go(func() { // in the midst of it one more of the good identity connects
			<-time.After(attackTime / 2)
			dialGood(a.t, a.socket, "newcomer")
		})
		if at.run != nil {
			at.run(ctx, a)
		}
		<-ctx.Done()
	})
	peak := stop()
	if peak > a.ceiling {
		a.t.Errorf("memory of its own: got %d MiB, want at most %d, as docket check says", peak>>20, a.ceiling>>20)
	}
	if n := a.group.kills(); n > 0 {
		a.t.Errorf("killed for want of memory: got %d times, want none", n)
	}
	if a.cmd.Process.Signal(syscall.Signal(0)) != nil {
		a.t.Error("docket has ended")
	}
	a.t.Logf("%-44s %3d MiB %3d MiB  %6s %8s  %6s %8s  %d lines acked", at.name, a.ceiling>>20, peak>>20,
		round(quiet.at(50)), round(quiet.at(99)), round(attacked.at(50)), round(attacked.at(99)), a.good.acked)
}

func round(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }

// sample looks again and again at how much memory of its own docket has, until stop is
// called, which returns the most that was seen. The pages of files are not among it: the
// kernel takes them back.
func (a *arena) sample() (stop func() int64) {
	end, peak := make(chan struct{}), make(chan int64)
	go func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for most := int64(0); ; {
			most = max(most, a.ownMemory())
			select {
			case <-tick.C:
			case <-end:
				peak <- most
				return
			}
		}
	}()
	return func() int64 { close(end); return <-peak }
}

// ownMemory is what docket has in memory that no file has, 0 if it has ended.
func (a *arena) ownMemory() int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", a.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), "RssAnon:")
	kib, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	n, _ := strconv.ParseInt(kib, 10, 64) // a process that ends has none
	return n << 10
}

// goodProducer sends one line at a time and waits for its ack.
type goodProducer struct {
	t     *testing.T
	nc    net.Conn
	in    *bufio.Reader
	acked int
}

func dialGood(t *testing.T, socket, name string) *goodProducer {
	t.Helper()
	nc, err := net.Dial("unix", socket)
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return nil
	}
	t.Cleanup(func() { nc.Close() })
	p := &goodProducer{t: t, nc: nc, in: bufio.NewReader(nc)}
	p.exchange(strings.TrimSuffix(hello(name, 1), "\n"), `{"docket":{"version":1,"acked":0}}`)
	return p
}

// exchange sends a line and expects another.
func (p *goodProducer) exchange(line, want string) bool {
	p.nc.SetDeadline(time.Now().Add(await.Left(p.t)))
	if _, err := io.WriteString(p.nc, line+"\n"); err != nil {
		p.t.Errorf("good producer: %v", err)
		return false
	}
	if got, err := p.in.ReadString('\n'); err != nil || got != want+"\n" {
		p.t.Errorf("good producer: got %q, %v, want %s", got, err, want)
		return false
	}
	return true
}

// latencies are those of acks.
type latencies []time.Duration

func (l latencies) at(percent int) time.Duration {
	if len(l) == 0 {
		return 0
	}
	slices.Sort(l)
	return l[(len(l)-1)*percent/100]
}

// watch sends while do runs.
func (p *goodProducer) watch(do func()) (l latencies) {
	ended := make(chan struct{})
	go func() { defer close(ended); do() }()
	pad := strings.Repeat("x", 900)
	for {
		select {
		case <-ended:
			return l
		default:
		}
		began := time.Now()
		if !p.exchange(fmt.Sprintf(`{"n":%d,"pad":%q}`, p.acked+1, pad), fmt.Sprintf(`{"ack":%d}`, p.acked+1)) {
			<-ended
			return l
		}
		p.acked++
		l = append(l, time.Since(began))
		time.Sleep(2 * time.Millisecond) // as one who has something else to do as well
	}
}

// nobody is the user that attacks.
const nobody = 65534

// dial connects as nobody: with the effective user of this thread for as long as that
// takes.
func (a *arena) dial() (net.Conn, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, ^uintptr(0), nobody, ^uintptr(0)); errno != 0 {
		return nil, errno
	}
	defer syscall.RawSyscall(syscall.SYS_SETRESUID, ^uintptr(0), 0, ^uintptr(0))
	return net.Dial("unix", a.socket)
}

// each lets n peers do something at the same time, each with a connection as nobody of
// its own, until they are done or ctx is. What becomes of a connection is docket's to say:
// errors are the end of one and no more.
func (a *arena) each(ctx context.Context, n int, do func(i int, nc net.Conn)) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for i := range n {
		nc, err := a.dial()
		if err != nil {
			return
		}
		defer context.AfterFunc(ctx, func() { nc.Close() })()
		defer nc.Close()
		wg.Go(func() { do(i, nc) })
	}
	wg.Wait()
	<-ctx.Done() // they stay as they are
}
