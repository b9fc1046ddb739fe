//go:build soak

package cli

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/docket-export/docket/cli/builtin"
	"github.com/docket-export/docket/cli/internal/command"
	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/internal/fakekafka"
	"github.com/docket-export/docket/internal/testcert"
	"github.com/docket-export/docket/internal/testcli"
)

// attack is what somebody does to a docket who wants it to run out of memory.
type attack struct {
	name string
	// sources is what the configuration has beside the socket, and limits its limits.
	sources, limits string
	// file is one that docket reads, and times how often it has text.
	file, text string
	times      int
	// sinksDown says that the destinations take nothing.
	sinksDown bool
	// run attacks until it is done, or ctx is; nil: the file is the attack.
	run func(ctx context.Context, a *arena)
}

// attackTime is how long an attack lasts.
const attackTime = 2 * time.Second

// TestMemoryCeiling is promise 10: whatever peers send, docket keeps to the memory that
// docket check prints, and a producer of another identity that behaves well has every line
// acknowledged, over one connection that is never closed.
func TestMemoryCeiling(t *testing.T) {
	t.Parallel() // one docket after the other waits here
	if os.Getuid() != 0 && os.Getenv("CI") != "true" {
		t.Skip("only root can be two users")
	}
	docket := releasedDocket(t)
	kafka := fakekafka.Start(t, 1, 3, "decisions").ListenAddrs()[0]
	siem := newReceiver(t).server.URL
	for _, at := range attacks() {
		t.Run(at.name, func(t *testing.T) {
			a := newArena(t, at, kafka, siem)
			a.start(docket)
			good := dialGood(t, a.socket, "good")
			ctx, cancel := context.WithTimeout(t.Context(), attackTime)
			defer cancel()
			var attacked sync.WaitGroup
			if at.run != nil {
				attacked.Go(func() { at.run(ctx, a) })
			}
			most := make(chan int64)
			go func() {
				peak := int64(0)
				for ctx.Err() == nil {
					peak = max(peak, ownMemory(a.cmd.Process.Pid))
					time.Sleep(5 * time.Millisecond)
				}
				most <- peak
			}()
			for ctx.Err() == nil {
				good.line()
				time.Sleep(2 * time.Millisecond)
			}
			peak := <-most
			attacked.Wait()
			dialGood(t, a.socket, "newcomer").line() // one more of the good identity connects
			if peak > a.ceiling {
				t.Errorf("memory of its own: got %d MiB, want at most %d, as docket check says", peak>>20, a.ceiling>>20)
			}
			t.Logf("%-44s %3d MiB of %3d, %d lines acknowledged beside it", at.name, peak>>20, a.ceiling>>20, good.acked)
		})
	}
}

func attacks() []attack {
	const opa = "- name: opa\n  opa: {address: \"OTHER\"}"
	unfinished := `{"pad":"` + strings.Repeat("x", 1<<20-100)
	var varied strings.Builder
	for i := range 20000 {
		fmt.Fprintf(&varied, "{\"n\":%d,%s\n", i, strings.Repeat(" ", i%50))
	}
	deep := strings.Repeat(`{"a":[`, 4900) + strings.Repeat(`]}`, 4900) + "\n"
	bomb := packed("[" + strings.Repeat("[],", 3<<20) + "{}]")
	post := fmt.Sprintf("POST /logs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s", len(bomb), bomb)
	// sends has n peers begin with first and go on with more until they cannot.
	sends := func(n int, first, more string) func(context.Context, *arena) {
		return func(ctx context.Context, a *arena) {
			a.each(ctx, n, func(i int, nc net.Conn) {
				_, err := io.WriteString(nc, strings.ReplaceAll(first, "NAME", fmt.Sprint("peer", i)))
				for more != "" && err == nil {
					_, err = io.WriteString(nc, more)
				}
			})
		}
	}
	const hello = `{"docket":{"version":1,"producer":"NAME","next":1}}` + "\n"
	return []attack{
		{name: "1,000 unfinished lines of 1 MB", run: sends(1000, unfinished, "")},
		{name: "1,500 idle connections", run: sends(1500, "", "")},
		{name: "1 MiB records on 50 connections", run: sends(50, "", unfinished+"\"}\n")},
		{name: "16 MiB records among short ones", limits: "limits: {maxRecordBytes: 16Mi}",
			run: sends(8, "", `{"pad":"`+strings.Repeat("x", 16<<20-100)+"\"}\n"+strings.Repeat("{}\n", 1000))},
		{name: "over-long lines on 200 connections", run: sends(200, "", unfinished+unfinished+"\n")},
		{name: "deep nesting on 20 connections", run: sends(20, "", deep)},
		{name: "acks that nobody reads on 1,000 connections", run: sends(1000, hello+strings.Repeat("{}\n", 100), "")},
		{name: "20,000 producer names", run: func(ctx context.Context, a *arena) {
			for i := 0; i < 20000 && ctx.Err() == nil; i++ {
				if nc, err := a.dial(); err == nil {
					io.WriteString(nc, strings.ReplaceAll(hello, "NAME", fmt.Sprintf("%s-%d", strings.Repeat("n", 100), i))+"{}\n")
					nc.Close()
				}
			}
		}},
		{name: "refused lines that differ on 50 connections", run: sends(50, "", varied.String())},
		{name: "bytes that are no UTF-8 on 20 connections", run: sends(20, "", "{\"a\":\""+strings.Repeat("\xff", 60<<10)+"\"}\n")},
		{name: "refusals that nobody reads on 1,000 connections", run: sends(1000, hello+varied.String(), "")},
		{name: "redaction that makes records 30 times as long", sources: `  redact: [{pointer: "/a/*", action: Replace, with: "` + strings.Repeat("*", 60) + `"}]`,
			run: sends(50, "", `{"a":[`+strings.Repeat("0,", 10000)+"0]}\n")},
		{name: "a flood with two sinks down", sinksDown: true, run: sends(8, "", strings.Repeat(`{"pad":"`+strings.Repeat("x", 1000)+"\"}\n", 1000))},
		{name: "a log file of one line of 64 MiB", sources: "- name: engine\n  tail: {path: DIR/engine.log, format: json}", file: "engine.log", text: "{" + unfinished, times: 64},
		{name: "an audit file of a million {", sources: "- name: audit\n  gatekeeper: {path: DIR/topics}", file: "topics/audit/2026-01-01T00:00:00Z.log", text: strings.Repeat("{\n", 10000), times: 100},
		{name: "2,000 slow admin requests", run: func(ctx context.Context, a *arena) {
			knock(ctx, a.admin, 2000, "GET /status HTTP/1.1\r\nHost: localhost\r\nX: "+strings.Repeat("x", 3000))
		}},
		{name: "20 gzip bombs to opa", sources: opa, run: func(ctx context.Context, a *arena) { knock(ctx, a.other, 20, post) }},
		{name: "1,000 slow uploads to opa", sources: opa, run: func(ctx context.Context, a *arena) { knock(ctx, a.other, 1000, post[:1000]) }},
		{name: "2,000 TLS handshakes begun", sources: "- name: remote\n  tcp: {address: \"OTHER\", tls: {certFile: \"CERT\", keyFile: \"KEY\"}}",
			run: func(ctx context.Context, a *arena) {
				knock(ctx, a.other, 2000, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
			}},
	}
}

func packed(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	io.WriteString(w, text)
	w.Close()
	return b.String()
}

// knock lets n peers write text to an address and stay, until ctx is done.
func knock(ctx context.Context, address string, n int, text string) {
	for range n {
		if nc, err := net.Dial("tcp", address); err == nil {
			defer nc.Close()
			nc.SetDeadline(time.Now().Add(attackTime))
			io.WriteString(nc, text)
		}
	}
	<-ctx.Done()
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

// arena is a docket that is attacked.
type arena struct {
	t           *testing.T
	dir, socket string
	admin       string
	other       string // another address that nobody listens at
	ceiling     int64  // the memory that docket says it stays below
	cmd         *exec.Cmd
}

func newArena(t *testing.T, at attack, kafka, siem string) *arena {
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
	if at.sinksDown {
		kafka, siem = a.other, "http://"+a.other+"/nobody"
	}
	if at.file != "" {
		file := filepath.Join(dir, at.file)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		writeFile(t, file, strings.Repeat(at.text, at.times))
	}
	pair := testcert.NewCA(t).Issue(t, "docket")
	config := filepath.Join(dir, "docket.yaml")
	sources := strings.NewReplacer("OTHER", a.other, "DIR", dir, "CERT", pair.CertFile, "KEY", pair.KeyFile).Replace(at.sources)
	writeFile(t, config, strings.NewReplacer("SOURCES", sources, "LIMITS", at.limits, "DIR", dir, "ADMIN", a.admin, "KAFKA", kafka, "SIEM", siem).Replace(ceilingConfig))
	cfg, err := command.LoadConfig(builtin.Kinds(), config, "")
	if err != nil {
		t.Fatal(err)
	}
	a.ceiling = max(ceilingLimit, exporter.MemoryCeiling(cfg.Memory()))
	return a
}

func (a *arena) start(docket string) {
	a.t.Helper()
	log, err := os.Create(filepath.Join(a.dir, "log"))
	if err != nil {
		a.t.Fatal(err)
	}
	defer log.Close()
	a.cmd = exec.Command(docket, "run", "-f", filepath.Join(a.dir, "docket.yaml"))
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
	if err := waitReady(a.t, a.admin); err != nil {
		a.t.Fatal(err)
	}
}

// ownMemory is what a process has in memory that no file has: the kernel takes pages of files
// back. It is 0 if the process has ended.
func ownMemory(pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), "RssAnon:")
	kib, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	n, _ := strconv.ParseInt(kib, 10, 64)
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
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	p := &goodProducer{t: t, nc: nc, in: bufio.NewReader(nc)}
	p.exchange(fmt.Sprintf(`{"docket":{"version":1,"producer":%q,"next":1}}`, name), `{"docket":{"version":1,"acked":0}}`)
	return p
}

func (p *goodProducer) line() {
	p.t.Helper()
	p.acked++
	p.exchange(fmt.Sprintf(`{"n":%d,"pad":%q}`, p.acked, strings.Repeat("x", 900)), fmt.Sprintf(`{"ack":%d}`, p.acked))
}

// exchange sends a line and expects another.
func (p *goodProducer) exchange(line, want string) {
	p.t.Helper()
	p.nc.SetDeadline(time.Now().Add(await.Left(p.t)))
	if _, err := io.WriteString(p.nc, line+"\n"); err != nil {
		p.t.Fatalf("good producer: %v", err)
	}
	if got, err := p.in.ReadString('\n'); err != nil || got != want+"\n" {
		p.t.Fatalf("good producer: got %q, %v, want %s", got, err, want)
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
// its own, until ctx is done. What becomes of a connection is docket's to say.
func (a *arena) each(ctx context.Context, n int, do func(i int, nc net.Conn)) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for i := range n {
		nc, err := a.dial()
		if err != nil {
			break
		}
		defer context.AfterFunc(ctx, func() { nc.Close() })()
		defer nc.Close()
		wg.Go(func() { do(i, nc) })
	}
	<-ctx.Done()
}
