//go:build soak && unix

package examples

import (
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/internal/document/desk"
	"github.com/docket-export/docket/internal/fakekafka"
	"github.com/docket-export/docket/internal/testcert"
	"github.com/docket-export/docket/internal/testcli"
)

const (
	records = "../testdata/records/"
	samples = "../testdata/samples/"
)

// setup is a running example.
type setup struct {
	*desk.Desk
	ca    testcert.CA
	names []string // pairs: what the example says, and what stands for it here
}

// start runs docket with the example's configuration. A path of the example is one below the desk's directory.
func start(t *testing.T, example string, names ...string) *setup {
	t.Helper()
	admin, err := testcli.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	s := &setup{Desk: desk.New(t), ca: testcert.NewCA(t), names: names}
	for _, dir := range []string{"/var/lib/docket", "/var/log/docket", "/var/log/gatekeeper", "/var/run/secrets", "/run/docket", "/tmp/violations", "/etc/docket", "/certs"} {
		s.names = append(s.names, dir, filepath.Join(s.Dir, dir))
		if err := os.MkdirAll(filepath.Join(s.Dir, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, secret := range []string{"siem/token", "splunk/token", "elasticsearch/password"} {
		s.write(t, "/var/run/secrets/"+secret, "secret")
	}
	s.Do(t, "docket keygen etc/docket/export\n")
	s.copy(t, example+"/docket.yaml", "admin: {address: \""+admin+"\"}\n")
	if said := s.Do(t, "docket check -f docket.yaml\n"); !strings.HasSuffix(said, "ok\n") {
		t.Fatalf("docket check: %s", said)
	}
	s.Do(t, "docket run -f docket.yaml\n")
	return s
}

// copy writes a file of the example, with what is to stand for its names, and more lines.
func (s *setup) copy(t *testing.T, file, more string) {
	t.Helper()
	s.write(t, filepath.Base(file), strings.NewReplacer(s.names...).Replace(read(t, file))+more)
}

func (s *setup) write(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(s.Dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// lines returns the records of a file that a real engine made.
func lines(t *testing.T, name string) []string {
	t.Helper()
	return strings.Split(strings.TrimSpace(read(t, name)), "\n")
}

// arrives waits until got returns every text of want, in whatever order and however it is quoted.
func arrives(t *testing.T, want []string, got func() string) {
	t.Helper()
	if len(want) == 0 {
		t.Fatal("nothing is wanted")
	}
	for _, w := range want {
		quoted, _ := json.Marshal(w) // a string: no error
		await.Until(t, "at the sink: "+w, func() bool {
			text := got()
			return strings.Contains(text, w) || strings.Contains(text, strings.Trim(string(quoted), `"`))
		})
	}
}

// receiver is the HTTP server behind a sink.
type receiver struct {
	*httptest.Server
	mutex sync.Mutex
	text  strings.Builder
}

// receive starts a receiver that answers each request with what answer makes of its body. A nil answer is an
// empty object.
func receive(t *testing.T, answer func(body string) string) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		body := io.Reader(request.Body)
		if request.Header.Get("Content-Encoding") == "gzip" {
			var err error
			if body, err = gzip.NewReader(body); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
		}
		text, err := io.ReadAll(body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.mutex.Lock()
		r.text.Write(text)
		r.mutex.Unlock()
		w.Header().Set("Content-Type", "application/json")
		if answer == nil {
			answer = func(string) string { return "{}" }
		}
		fmt.Fprint(w, answer(string(text)))
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) got() string {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.text.String()
}

func post(t *testing.T, client *http.Client, url, body string, header http.Header) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header = header
	request.Header.Set("Content-Type", "application/json")
	answer, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("POST %s: got %s, %v and %s", url, answer.Status, err, text)
	}
	return string(text)
}

// consumer returns the values of a topic, read committed.
func consumer(t *testing.T, cluster *fakekafka.Cluster, topic string) func() string {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	var text strings.Builder
	return func() string {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		client.PollFetches(ctx).EachRecord(func(r *kgo.Record) { text.Write(r.Value); text.WriteByte('\n') })
		return text.String()
	}
}

// send gives docket the records of a file, as an engine does at its socket.
func (s *setup) send(t *testing.T, name string) []string {
	t.Helper()
	path, err := filepath.Abs(records + name)
	if err != nil {
		t.Fatal(err)
	}
	s.Do(t, "docket send -f docket.yaml "+path+"\n")
	return lines(t, records+name)
}

// files returns what the files of an export hold.
func (s *setup) files(t *testing.T) func() string {
	return func() string { return s.Do(t, "docket query var/log/docket\n") }
}

func TestGatekeeper(t *testing.T) {
	r := receive(t, nil)
	s := start(t, "gatekeeper", "https://siem.example.com/ingest", r.URL)
	sample, err := filepath.Glob(samples + "gatekeeper/disk-export-audit-channel-*.log")
	if err != nil || len(sample) != 1 {
		t.Fatalf("got samples %q, %v", sample, err)
	}
	written := lines(t, sample[0])
	s.write(t, "/tmp/violations/topics/audit-channel/2026-11-21T07:38:01Z.log", strings.Join(written, "\n")+"\n")
	var violations, denied []string
	for _, line := range written {
		if strings.Contains(line, `"violation_audited"`) {
			violations = append(violations, line)
		}
		if strings.Contains(line, `"enforcementAction":"deny"`) {
			denied = append(denied, line)
		}
	}
	arrives(t, violations, s.files(t))
	arrives(t, denied, r.got)
}

func TestOPA(t *testing.T) {
	r := receive(t, nil)
	opa, err := testcli.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	start(t, "opa", "http://collector.observability.svc:4318", r.URL, "127.0.0.1:8282", opa)
	upload := read(t, samples+"opa/000.body") // as OPA 1.22 sent it
	post(t, http.DefaultClient, "http://"+opa+"/logs", upload, http.Header{"Content-Encoding": {"gzip"}})
	unpacked, err := gzip.NewReader(strings.NewReader(upload))
	if err != nil {
		t.Fatal(err)
	}
	var decisions []json.RawMessage
	if err := json.NewDecoder(unpacked).Decode(&decisions); err != nil {
		t.Fatal(err)
	}
	arrives(t, texts(decisions), r.got)
}

func texts(raw []json.RawMessage) (all []string) {
	for _, r := range raw {
		all = append(all, string(r))
	}
	return all
}

func TestKubeAPIServer(t *testing.T) {
	r := receive(t, nil)
	audit, err := testcli.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	start(t, "kube-apiserver", "http://loki.observability.svc:3100", r.URL, "127.0.0.1:8443", audit)
	events := lines(t, records+"kubernetes-audit.ndjson")
	// The capture has no denial: the creation of a pod becomes one, as a ValidatingAdmissionPolicy leaves it.
	denied := strings.NewReplacer(`"code":201`, `"status":"Failure","reason":"Invalid","code":422`, `"auditID":"`, `"auditID":"1`).Replace(events[4])
	events = append(events, denied)
	list := `{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":[` + strings.Join(events, ",") + `]}`
	post(t, http.DefaultClient, "http://"+audit+"/audit", list, http.Header{})
	arrives(t, []string{denied}, r.got)
}

func TestKyvernoTap(t *testing.T) {
	cluster := fakekafka.Start(t, 1, 3, "admission")
	denial := read(t, samples+"gatekeeper/admission/deny-response.json")
	engine := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, denial)
	}))
	s := start(t, "kyverno-tap", "kafka-0.kafka.svc:9092", cluster.ListenAddrs()[0])
	pair := s.ca.Issue(t, "kyverno-svc.kyverno.svc")
	engine.TLS = &tls.Config{Certificates: []tls.Certificate{pair.TLS}} //nolint:gosec // of a test
	engine.StartTLS()
	t.Cleanup(engine.Close)
	for name, text := range map[string]string{"tls.crt": pair.CertPEM, "tls.key": pair.KeyPEM, "ca.crt": s.ca.PEM} {
		s.write(t, "/certs/"+name, text)
	}
	tap, err := testcli.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	metrics, err := testcli.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	s.names = append(s.names, `":9444"`, `"`+tap+`"`, "https://127.0.0.1:9443", engine.URL, `":9466"`, `"`+metrics+`"`)
	s.copy(t, "kyverno-tap/tap.yaml", "")
	s.Do(t, "docket tap -f tap.yaml\n")
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: s.ca.Pool, ServerName: "kyverno-svc.kyverno.svc"}} //nolint:gosec // of a test
	t.Cleanup(transport.CloseIdleConnections)
	request := read(t, samples+"gatekeeper/admission/deny-request.json")
	if got := post(t, &http.Client{Transport: transport}, "https://"+tap+"/validate", request, http.Header{}); got != denial {
		t.Errorf("got the answer %s, want it byte for byte", got)
	}
	arrives(t, []string{`"decision":"deny"`, "you must provide labels"}, consumer(t, cluster, "admission"))
}

func TestLogFile(t *testing.T) {
	s := start(t, "log-file")
	s.write(t, "/var/log/gatekeeper/manager.log", read(t, samples+"gatekeeper/webhook-log-denies.jsonl"))
	arrives(t, lines(t, records+"gatekeeper-denies.ndjson"), s.files(t))
}

func TestKafkaExactlyOnce(t *testing.T) {
	cluster := fakekafka.Start(t, 2, 3, "decisions")
	addresses := cluster.ListenAddrs()
	s := start(t, "kafka-exactly-once", "kafka-0.kafka.svc:9092", addresses[0], "kafka-1.kafka.svc:9092", addresses[1])
	sent := s.send(t, "gatekeeper-audit.ndjson")
	read := consumer(t, cluster, "decisions")
	arrives(t, sent, read)
	if n := strings.Count(read(), "\n"); n != len(sent) {
		t.Errorf("got %d records, want %d", n, len(sent))
	}
}

func TestSplunk(t *testing.T) {
	r := receive(t, func(string) string { return `{"text":"Success","code":0}` })
	s := start(t, "splunk", "https://splunk.example.com:8088", r.URL)
	s.send(t, "gatekeeper-audit.ndjson")
	arrives(t, s.send(t, "gatekeeper-admission.ndjson")[:1], r.got)
}

func TestElasticsearch(t *testing.T) {
	r := receive(t, func(body string) string {
		created := strings.Repeat(`{"create":{"status":201}},`, strings.Count(body, "\n")/2)
		return `{"errors":false,"items":[` + strings.TrimSuffix(created, ",") + `]}`
	})
	s := start(t, "elasticsearch", "https://elasticsearch.example.com:9200", r.URL)
	arrives(t, s.send(t, "opa-decisions.ndjson"), r.got)
}

func TestCompliance(t *testing.T) {
	siem := receive(t, nil)
	s := start(t, "compliance", "https://siem.example.com/ingest", siem.URL, "group: auditors", fmt.Sprintf("group: \"%d\"", os.Getgid()),
		"maxAge: 1h", "maxAge: 1s") // a test waits for no hour
	sent := s.send(t, "gatekeeper-admission.ndjson")
	var stamped []string // the stamp stands behind the record's own fields
	for _, record := range sent {
		stamped = append(stamped, strings.TrimSuffix(record, "}"))
	}
	arrives(t, stamped, s.files(t))
	arrives(t, []string{"PROVEN", "manifest    1 line, signed", "1 file with 5 records"}, func() string {
		s.write(t, "checkpoints", siem.got())
		return s.Do(t, "docket verify var/log/docket --sink compliance --public-key etc/docket/export.pub --checkpoints checkpoints || [ $? = 3 ]\n")
	})
	if strings.Contains(siem.got(), `"enforcementAction"`) {
		t.Errorf("the SIEM got more than checkpoints: %s", siem.got())
	}
}
