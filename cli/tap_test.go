package cli

import (
	"cmp"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/docket-export/docket/cli/internal/command"
	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/internal/testcert"
	"github.com/docket-export/docket/internal/testcli"
)

// tapStage is a tap in front of an engine, with the certificates of one CA.
type tapStage struct {
	t       *testing.T
	ca      testcert.CA
	engine  *httptest.Server
	asked   atomic.Int64 // requests that the engine has had
	dir     string       // --tls-dir
	listen  string
	metrics string
	config  string // the file of kind Tap
	program string // of the tap; empty: this one
	process *process
	client  *http.Client
}

// newTapStage changes to an empty directory. The engine answers reviews by their UID: those
// that begin with d are denied. more are lines of the configuration.
func newTapStage(t *testing.T, more string) *tapStage {
	t.Helper()
	t.Chdir(t.TempDir())
	s := &tapStage{t: t, ca: testcert.NewCA(t), dir: "certs", config: "tap.yaml"}
	s.engine = httptest.NewUnstartedServer(http.HandlerFunc(s.decide))
	s.engine.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.engine.TLS = &tls.Config{Certificates: []tls.Certificate{s.ca.Issue(t, "engine.ns.svc").TLS}}
	s.engine.StartTLS()
	t.Cleanup(s.engine.Close)
	s.swap(s.ca.Issue(t, "engine.ns.svc"))
	var err error
	if s.listen, err = testcli.FreeAddress(); err != nil {
		t.Fatal(err)
	}
	if s.metrics, err = testcli.FreeAddress(); err != nil {
		t.Fatal(err)
	}
	writeFile(t, s.config, fmt.Sprintf(`apiVersion: docket.dev/v1alpha1
kind: Tap
listen: %q
tlsDir: certs
upstream: {url: %q, caFile: %q}
metrics: {address: %q}
`, s.listen, s.engine.URL, s.ca.File, s.metrics)+more)
	transport := &http.Transport{
		TLSClientConfig:     &tls.Config{RootCAs: s.ca.Pool, ServerName: "engine.ns.svc"},
		MaxIdleConnsPerHost: 100,
	}
	t.Cleanup(transport.CloseIdleConnections)
	s.client = &http.Client{Transport: transport, Timeout: await.Left(t)}
	return s
}

// swap puts another certificate into the directory, in the way of a mounted Secret.
func (s *tapStage) swap(pair testcert.Pair) {
	s.t.Helper()
	data, err := os.MkdirTemp(".", "data")
	if err != nil {
		s.t.Fatal(err)
	}
	writeFile(s.t, filepath.Join(data, "tls.crt"), pair.CertPEM)
	writeFile(s.t, filepath.Join(data, "tls.key"), pair.KeyPEM)
	if err := os.Symlink(data, "new"); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename("new", s.dir); err != nil {
		s.t.Fatal(err)
	}
}

// start starts tap and waits until it is ready.
func (s *tapStage) start(args ...string) {
	s.t.Helper()
	s.process = newProcess(s.t, append([]string{"tap", "-f", s.config}, args...)...)
	s.process.cmd.Path = cmp.Or(s.program, s.process.cmd.Path)
	s.process.start()
	if err := waitReady(s.t, s.metrics); err != nil {
		s.t.Fatalf("%v\n%s", err, s.process.stderr())
	}
}

// decide is the engine.
func (s *tapStage) decide(w http.ResponseWriter, r *http.Request) {
	s.asked.Add(1)
	var review struct{ Request struct{ UID string } }
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		fmt.Fprintf(w, "%s %s", r.Method, r.URL.Path)
		return
	}
	io.WriteString(w, verdict(review.Request.UID))
}

func verdict(uid string) string {
	status := ""
	if strings.HasPrefix(uid, "d") {
		status = `,"status":{"code":403,"message":"[ns-must-have-owner] no owner"}`
	}
	return fmt.Sprintf(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":%q,"allowed":%t%s}}`, uid, status == "", status)
}

func reviewOf(uid string, padding int) string {
	return fmt.Sprintf(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":%q,"kind":{"group":"","version":"v1","kind":"Pod"},"resource":{"group":"","version":"v1","resource":"pods"},"name":"p","namespace":"ns","operation":"CREATE","userInfo":{"username":"alice"},"object":{"data":%q},"dryRun":false}}`,
		uid, strings.Repeat("x", padding))
}

// review sends a review to tap and reports what is wrong with the answer.
func (s *tapStage) review(uid string, padding int) error {
	res, err := s.client.Post("https://"+s.listen+"/v1/admit?timeout=60s", "application/json", strings.NewReader(reviewOf(uid, padding)))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if want := verdict(uid); res.StatusCode != http.StatusOK || string(body) != want {
		return fmt.Errorf("got %d %q, want 200 %q", res.StatusCode, body, want)
	}
	return nil
}

// load sends reviews from several goroutines until the returned function is called, which
// says how many there were. Every tenth is denied. A verdict that is not the engine's is
// an error.
func (s *tapStage) load(name string, padding int) (stop func() (denied, all int64)) {
	var next, denied atomic.Int64
	var workers sync.WaitGroup
	done := make(chan struct{})
	for range 4 {
		workers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				n := next.Add(1)
				uid := fmt.Sprintf("%s-%d", name, n)
				if n%10 == 0 {
					uid = "d-" + uid
					denied.Add(1)
				}
				if err := s.review(uid, padding); err != nil {
					s.t.Errorf("review %s: %v", uid, err)
					return
				}
			}
		})
	}
	return func() (int64, int64) {
		close(done)
		workers.Wait()
		return denied.Load(), next.Load()
	}
}

// value is that of a metric, with its labels.
func (s *tapStage) value(metric string) int {
	s.t.Helper()
	found := regexp.MustCompile("(?m)^" + regexp.QuoteMeta(metric) + ` ([0-9.e+]+)$`).FindStringSubmatch(s.page("/metrics"))
	if found == nil {
		s.t.Fatalf("got no metric %s", metric)
	}
	n, err := strconv.ParseFloat(found[1], 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return int(n)
}

func (s *tapStage) page(path string) string {
	s.t.Helper()
	return pageAt(s.t, "http://"+s.metrics+path)
}

// A denied review leaves a record, and so does JSON that is none; what is neither leaves
// nothing. Everything passes.
func TestTapRecords(t *testing.T) {
	s := newTapStage(t, "docket: {address: \"unix://DIR/docket.sock\"}\npreset: gatekeeper\ncluster: east\nshutdownDelay: 0s\n")
	s.useDocket("docket.sock")
	exporter := startExporter(t)
	s.start()
	for _, uid := range []string{"a1", "d1", "a2", "d2"} {
		if err := s.review(uid, 100); err != nil {
			t.Error(err)
		}
	}
	for path, kind := range map[string]string{"/json": "application/json", "/text": "text/plain"} {
		res, err := s.client.Post("https://"+s.listen+path, kind, strings.NewReader("[]"))
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
	}
	eventually(t, "three stored records", func() bool { return s.value("docket_tap_records_stored_total") == 3 })
	for metric, want := range map[string]int{
		`docket_tap_requests_total{result="Answered"}`: 6,
		`docket_tap_reviews_total{decision="allow"}`:   2,
		`docket_tap_reviews_total{decision="deny"}`:    2,
		`docket_tap_reviews_total{decision="error"}`:   1,
		"docket_tap_not_reviews_total":                 1,
		"docket_tap_connected":                         1,
		"docket_tap_records_total":                     3,
	} {
		if got := s.value(metric); got != want {
			t.Errorf("got %s %d, want %d", metric, got, want)
		}
	}
	s.process.interrupt()
	if code := s.process.wait(); code != command.ExitOK {
		t.Errorf("got exit code %d of tap, want %d:\n%s", code, command.ExitOK, s.process.stderr())
	}
	text := exportOf(t, exporter)
	for _, want := range []string{`"requestUID":"d1"`, `"requestUID":"d2"`, `"decision":"error"`, `"cluster":"east"`, `"name":"ns-must-have-owner"`} {
		if !strings.Contains(text, want) {
			t.Errorf("got export\n%s\nwant %s in it", text, want)
		}
	}
}

// useDocket names the socket in the configuration.
func (s *tapStage) useDocket(socket string) {
	s.t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		s.t.Fatal(err)
	}
	writeFile(s.t, s.config, strings.ReplaceAll(readFile(s.t, s.config), "DIR/docket.sock", filepath.Join(dir, socket)))
}

// newExporterFile writes the configuration of a docket in the current directory, with
// little room.
func newExporterFile(t *testing.T) (file, admin string) {
	t.Helper()
	admin, err := testcli.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, "docket.yaml", fmt.Sprintf(`apiVersion: docket.dev/v1alpha1
kind: Exporter
sources:
- name: tap
  unix: {path: docket.sock}
queue: {directory: queue, maxBytes: 16Mi}
sinks:
- name: export
  file: {directory: export}
admin: {address: %q}
shutdown: {drainTimeout: 5s}
`, admin))
	return "docket.yaml", admin
}

// startExporter runs a docket of newExporterFile, and waits until it is ready.
func startExporter(t *testing.T) *process {
	t.Helper()
	config, admin := newExporterFile(t)
	exporter := startProcess(t, "run", "-f", config)
	if err := waitReady(t, admin); err != nil {
		t.Fatal(err)
	}
	return exporter
}

// exportOf stops a docket of startExporter, and returns what it has exported.
func exportOf(t *testing.T, exporter *process) string {
	t.Helper()
	exporter.interrupt()
	exporter.wait()
	return readFile(t, "export/decisions-active.ndjson")
}

// In Batch no fault of docket changes a verdict, or the tap: docket away from the start,
// killed, hung, and full.
func TestTapWithoutDocket(t *testing.T) {
	s := newTapStage(t, "docket: {address: \"unix://DIR/docket.sock\", maxBufferedBytes: 64Ki}\nshutdownDelay: 0s\n")
	s.useDocket("docket.sock")
	s.start()
	stop := s.load("away", 2000)
	eventually(t, "lost records", func() bool { return s.value(`docket_tap_records_lost_total{decision="deny"}`) > 0 })

	exporter := startExporter(t)
	stored := func() int { return s.value("docket_tap_records_stored_total") }
	eventually(t, "stored records", func() bool { return stored() > 100 })
	if err := exporter.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	lost := s.value(`docket_tap_records_lost_total{decision="deny"}`)
	eventually(t, "records lost by a hung docket", func() bool { return s.value(`docket_tap_records_lost_total{decision="deny"}`) > lost })
	exporter.cmd.Process.Kill()
	exporter.wait()
	for range onceIfShort(5) { // killed while it stores
		exporter = startProcess(t, "run", "-f", "docket.yaml")
		before := stored()
		eventually(t, "more stored records", func() bool { return stored() > before })
		exporter.cmd.Process.Kill()
		exporter.wait()
	}
	denied, all := stop()
	if asked := s.asked.Load(); asked != all {
		t.Errorf("got %d requests at the engine, want %d: one for each review", asked, all)
	}
	if got := s.value(`docket_tap_requests_total{result="Answered"}`); int64(got) != all {
		t.Errorf("got %d answered requests, want %d", got, all)
	}
	t.Logf("%d reviews, %d denied; stored %d, lost %d", all, denied, stored(), s.value(`docket_tap_records_lost_total{decision="deny"}`))
	if got := s.page("/readyz"); got != "ok\n" {
		t.Errorf("got %q, want a tap that is ready whatever docket does", got)
	}
}

// A docket that is full, as its sink is away, changes no verdict either: it stops reading,
// and records that find no room are counted.
func TestTapDocketFull(t *testing.T) {
	s := newTapStage(t, `docket: {address: "unix://DIR/docket.sock", maxBufferedBytes: 64Ki}
decisions: [allow, deny, warn, error]
include: [object]
shutdownDelay: 0s
`)
	s.useDocket("docket.sock")
	config, admin := newExporterFile(t)
	text, _, _ := strings.Cut(readFile(t, config), "- name: export")
	away, err := testcli.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, config, text+fmt.Sprintf("- name: export\n  http: {url: \"http://%s/\"}\nadmin: {address: %q}\n", away, admin))
	startProcess(t, "run", "-f", config)
	if err := waitReady(t, admin); err != nil {
		t.Fatal(err)
	}
	s.start()
	stop := s.load("full", 30_000)
	lost := func() int { return s.value(`docket_tap_records_lost_total{decision="allow"}`) }
	eventually(t, "a full docket", func() bool {
		before := s.value("docket_tap_records_stored_total")
		asked := s.asked.Load()
		eventually(t, "more reviews", func() bool { return s.asked.Load() > asked+50 })
		return lost() > 0 && before > 100 && s.value("docket_tap_records_stored_total") == before
	})
	_, all := stop()
	if asked := s.asked.Load(); asked != all {
		t.Errorf("got %d requests at the engine, want %d: one for each review", asked, all)
	}
	t.Logf("%d reviews, lost %d", all, lost())
}

// Certificates that change under load fail no request, and the new one is shown.
func TestTapRotatesUnderLoad(t *testing.T) {
	s := newTapStage(t, "docket: {address: \"\"}\nshutdownDelay: 0s\n")
	s.start()
	s.client.Transport.(*http.Transport).DisableKeepAlives = true // a handshake each
	stop := s.load("r", 100)
	for n := range onceIfShort(3) {
		name := fmt.Sprintf("round-%d.test", n)
		s.swap(s.ca.Issue(s.t, "engine.ns.svc", name))
		eventually(t, "the new certificate", func() bool {
			nc, err := tls.Dial("tcp", s.listen, &tls.Config{RootCAs: s.ca.Pool, ServerName: name})
			if err == nil {
				nc.Close()
			}
			return err == nil
		})
	}
	if _, all := stop(); all < 10 {
		t.Errorf("got %d reviews, want load", all)
	}
}

// SIGTERM under load: unready at once, no request fails, and every record is stored.
func TestTapStopsUnderLoad(t *testing.T) {
	s := newTapStage(t, "docket: {address: \"unix://DIR/docket.sock\"}\nshutdownDelay: 2s\n")
	s.useDocket("docket.sock")
	exporter := startExporter(t)
	s.start()
	stop := s.load("s", 1000)
	eventually(t, "reviews", func() bool { return s.asked.Load() > 200 })
	if err := s.process.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a tap that is not ready", func() bool { return !isReady(t, s.metrics) })
	served := s.asked.Load()
	eventually(t, "reviews served by a tap that is not ready", func() bool { return s.asked.Load() > served+50 })
	denied, _ := stop() // the endpoints know
	if code := s.process.wait(); code != command.ExitOK {
		t.Errorf("got exit code %d, want %d:\n%s", code, command.ExitOK, s.process.stderr())
	}
	if got := strings.Count(exportOf(t, exporter), `"decision":"deny"`); int64(got) != denied {
		t.Errorf("got %d records, want one for each of %d denied reviews", got, denied)
	}
}

// docket is away when tap is told to stop, and comes back during the drain: every record
// arrives.
func TestTapDrains(t *testing.T) {
	s := newTapStage(t, "docket: {address: \"unix://DIR/docket.sock\"}\nshutdownDelay: 0s\n")
	s.useDocket("later.sock")
	exporter := startExporter(t)
	s.start()
	const denied = 50
	for n := range denied {
		if err := s.review(fmt.Sprintf("d%d", n), 100); err != nil {
			t.Fatal(err)
		}
	}
	s.client.CloseIdleConnections()
	if err := s.process.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a tap that takes no more requests", func() bool { return !listens(s.listen) })
	if stored := s.value("docket_tap_records_stored_total"); stored != 0 {
		t.Errorf("got %d records stored, want none before docket is back", stored)
	}
	if err := os.Symlink("docket.sock", "later.sock"); err != nil {
		t.Fatal(err)
	}
	if code := s.process.wait(); code != command.ExitOK {
		t.Errorf("got exit code %d, want %d:\n%s", code, command.ExitOK, s.process.stderr())
	}
	if got := strings.Count(exportOf(t, exporter), `"decision":"deny"`); got != denied {
		t.Errorf("got %d records, want %d", got, denied)
	}
}

func listens(address string) bool {
	nc, err := net.Dial("tcp", address)
	if err == nil {
		nc.Close()
	}
	return err == nil
}

// What keeps a tap from being ready is in its log and in /readyz, with whose certificate it
// is and what to do.
func TestTapSaysWhoseCertificate(t *testing.T) {
	s := newTapStage(t, "docket: {address: \"\"}\nshutdownDelay: 0s\n")
	other := testcert.NewCA(t)
	writeFile(t, s.config, strings.ReplaceAll(readFile(t, s.config), s.ca.File, other.File))
	s.process = startProcess(t, "tap", "-f", s.config)
	want := `engine: TLS handshake with the engine at ` + s.engine.Listener.Addr().String() + `: the engine's certificate (subject "CN=engine.ns.svc", names ["engine.ns.svc"], issued by "CN=docket test CA"`
	eventually(t, "a listener", func() bool { return listens(s.metrics) })
	eventually(t, "the reason", func() bool { return strings.Contains(s.page("/readyz"), want) })
	res, err := s.client.Get("https://" + s.listen + "/")
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusBadGateway {
		t.Errorf("got %s, want 502", res.Status)
	}
	if got := s.process.stderr(); !strings.Contains(got, "does not verify: x509: ") || !strings.Contains(got, "write the CA that issued it to "+other.File) {
		t.Errorf("got log\n%s\nwant what is wrong with the certificate, and what to do", got)
	}
}

// An address that is taken is said, with what to do.
func TestTapAddressInUse(t *testing.T) {
	s := newTapStage(t, "docket: {address: \"\"}\n")
	s.start()
	second := startProcess(t, "tap", "--listen", s.listen, "--tls-dir", "certs", "--upstream", s.engine.URL, "--docket", "")
	if code := second.wait(); code != command.ExitFailed {
		t.Errorf("got exit code %d, want %d", code, command.ExitFailed)
	}
	if got, want := second.stderr(), "docket tap: listen on "+s.listen+": the port is in use, perhaps by the engine: choose another port with --listen: "; !strings.Contains(got, want) {
		t.Errorf("got %q, want %q in it", got, want)
	}
}

// A review is passed on while it arrives: what is not there yet keeps nothing from the engine.
func TestTapKeepsNoWholeBody(t *testing.T) {
	s := newTapStage(t, "docket: {address: \"\"}\n")
	s.start()
	nc, err := tls.Dial("tcp", s.listen, &tls.Config{RootCAs: s.ca.Pool, ServerName: "engine.ns.svc"})
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if err := nc.SetDeadline(time.Now().Add(await.Left(t))); err != nil {
		t.Fatal(err)
	}
	review := reviewOf("a1", 1<<20)
	fmt.Fprintf(nc, "POST /v1/admit HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(review), review[:1<<19])
	eventually(t, "the beginning of the review at the engine", func() bool { return s.asked.Load() == 1 })
	if _, err := io.WriteString(nc, review[1<<19:]); err != nil {
		t.Fatal(err)
	}
	if answer, err := io.ReadAll(nc); err != nil || !strings.Contains(string(answer), verdict("a1")) {
		t.Errorf("got %q, %v, want the verdict", answer, err)
	}
}

// Clients at one address that send slowly, more of them than there may be connections, keep no
// API server out.
func TestTapSlowClients(t *testing.T) {
	s := newTapStage(t, "docket: {address: \"\"}\n")
	s.start()
	s.slowClients(420)
}

// tapPlaces is how many connections tap has at most.
const tapPlaces = 256

// slowClients connects slow clients, with reviews of others in between.
func (s *tapStage) slowClients(slow int) {
	s.t.Helper()
	dialer := &tls.Dialer{
		NetDialer: &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}},
		Config:    &tls.Config{RootCAs: s.ca.Pool, ServerName: "engine.ns.svc"},
	}
	for n := range slow {
		head := "POST / HTTP/1.1\r\nHost: h\r\nX-"
		if n%2 == 0 {
			head = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\nContent-Type: application/json\r\n\r\n{"
		}
		nc, err := dialer.DialContext(s.t.Context(), "tcp", s.listen)
		if err == nil {
			s.t.Cleanup(func() { nc.Close() })
			_, err = io.WriteString(nc, head)
		}
		if err != nil && n < tapPlaces/2 { // those beyond are closed at once
			s.t.Fatal(err)
		}
		if n%50 == 0 {
			if err := s.review(fmt.Sprintf("between-%d", n), 100); err != nil {
				s.t.Error(err)
			}
		}
	}
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.process.cmd.Process.Pid))
	if others := 50; err != nil || len(open) > 2*tapPlaces+others { // one to the engine for each
		s.t.Errorf("got %d open files, %v, want at most %d connections", len(open), err, 2*tapPlaces)
	}
}
