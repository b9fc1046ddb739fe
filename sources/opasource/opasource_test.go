package opasource

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/internal/testcert"
	"github.com/docket-export/docket/internal/testleak"
	"github.com/docket-export/docket/sources"
	"github.com/docket-export/docket/sources/httpsource"
	"github.com/docket-export/docket/sources/sourcetest"
)

func TestMain(m *testing.M) { testleak.Main(m) }

func TestValidate(t *testing.T) {
	tests := map[string]struct {
		change func(*Config)
		want   string // path and beginning of the problem; empty: none
	}{
		"as it comes":           {func(*Config) {}, ""},
		"no address":            {func(c *Config) { c.Address = "" }, "address: is required"},
		"no port":               {func(c *Config) { c.Address = "127.0.0.1:0" }, "address: must have a port"},
		"a network without TLS": {func(c *Config) { c.Address = ":8282" }, "address: must be a loopback address"},
		"a network with TLS": {func(c *Config) {
			c.Address, c.TLS = ":8282", &config.ServerTLS{CertFile: "c", KeyFile: "k"}
		}, ""},
		"TLS without files":    {func(c *Config) { c.TLS = &config.ServerTLS{} }, "tls.certFile: is required"},
		"no connections":       {func(c *Config) { c.MaxConnections = 0 }, "maxConnections: must be at least 1"},
		"a path that is none":  {func(c *Config) { c.Path = "logs" }, "path: must be a path"},
		"everything":           {func(c *Config) { c.Path = "/" }, ""},
		"the path of statuses": {func(c *Config) { c.Path = "/status/x" }, "path: must not be /status/x"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := Definition.NewConfig().(*Config)
			c.Address = "127.0.0.1:8282"
			tt.change(c)
			err := c.Validate().Err()
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.want)) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// start runs the source until the test ends and returns where it listens.
func start(t *testing.T, in *sourcetest.Intake, change ...func(*Config)) (address string, source *httpsource.Source) {
	t.Helper()
	c := Definition.NewConfig().(*Config)
	c.Address = "127.0.0.1:0"
	for _, f := range change {
		f(c)
	}
	env := sources.Env{Name: "opa", MaxRecordBytes: 1 << 20, Stored: in.Stored, Log: slog.New(slog.DiscardHandler)}
	source = c.New(env).(*httpsource.Source)
	ctx, stop := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- source.Run(ctx, in, func() { close(ready) }) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("got the end %v, want none", err)
		}
	})
	select {
	case <-ready:
	case err := <-ended:
		ended <- err
		t.Fatal(err)
	}
	return source.Addr().String(), source
}

func post(t *testing.T, client *http.Client, url string, body []byte, header http.Header) (status int) {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = header
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.ReadAll(resp.Body); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode
}

// client makes no connection that outlives its request.
func client() *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
}

// sample is a real upload, its header and the events in it.
type sample struct {
	name   string
	body   []byte
	header http.Header
	events []string
}

func samples(t *testing.T) []sample {
	t.Helper()
	names, err := filepath.Glob("../../testdata/samples/opa/*.body")
	if err != nil || len(names) != 3 {
		t.Fatalf("got the samples %q (%v), want 3", names, err)
	}
	var all []sample
	for _, name := range names {
		body, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		head, err := os.ReadFile(strings.TrimSuffix(name, "body") + "headers")
		if err != nil {
			t.Fatal(err)
		}
		req, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(head)))
		if err != nil {
			t.Fatal(err)
		}
		s := sample{name: name, body: body, header: req.Header}
		var events []json.RawMessage
		if err := json.Unmarshal(unpack(t, body), &events); err != nil || len(events) == 0 {
			t.Fatalf("%s: got %d events (%v)", name, len(events), err)
		}
		for _, e := range events {
			s.events = append(s.events, string(e))
		}
		all = append(all, s)
	}
	return all
}

func unpack(t *testing.T, body []byte) []byte {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func checkLines(t *testing.T, in *sourcetest.Intake, want []string) {
	t.Helper()
	lines := in.Lines()
	if len(lines) != len(want) {
		t.Fatalf("got %d events, want %d", len(lines), len(want))
	}
	for i, l := range lines {
		if l.Text != want[i] || l.Refused != "" {
			t.Errorf("event %d: got %q %s, want %q", i, l.Text, l.Refused, want[i])
		}
	}
}

// Real uploads of OPA: byte for byte, and each event once however often they come.
func TestSamples(t *testing.T) {
	in := sourcetest.New()
	defer in.Close()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("sample-token\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	address, _ := start(t, in, func(c *Config) { c.BearerTokenFile = config.SecretFile(token) })
	var want []string
	for _, s := range samples(t) {
		want = append(want, s.events...)
		for range 3 {
			if status := post(t, client(), "http://"+address+"/logs", s.body, s.header); status != http.StatusOK {
				t.Fatalf("%s: got the answer %d, want 200", s.name, status)
			}
		}
	}
	checkLines(t, in, want)
	if in.Known() != 2*len(want) {
		t.Errorf("got %d duplicates, want %d", in.Known(), 2*len(want))
	}
	// The events of a chunk that OPA has packed anew, as its event buffer does.
	repacked := "[" + strings.Join(want, ",") + "]"
	header := http.Header{"Authorization": {"Bearer sample-token"}}
	if status := post(t, client(), "http://"+address+"/logs/partition", []byte(repacked), header); status != http.StatusOK {
		t.Fatalf("got the answer %d, want 200", status)
	}
	checkLines(t, in, want)
}

// A real upload cut at every byte, or with a bit flipped: it is refused, or nothing but
// what OPA sent is stored, and the good one after it is taken.
func TestSamplesDamaged(t *testing.T) {
	s := samples(t)[0]
	in := sourcetest.New()
	defer in.Close()
	address, _ := start(t, in)
	keep := &http.Client{Transport: &http.Transport{}}
	defer keep.CloseIdleConnections()
	header := http.Header{"Content-Encoding": {"gzip"}}
	url := "http://" + address + "/logs"
	for n := range s.body {
		if status := post(t, keep, url, s.body[:n], header); status != http.StatusBadRequest {
			t.Errorf("cut at %d: got the answer %d, want 400", n, status)
		}
		flipped := bytes.Clone(s.body)
		flipped[n] ^= 1 << (n % 8)
		// Some bits mean nothing: the checksum says whether the events are what they were.
		if status := post(t, keep, url, flipped, header); status != http.StatusBadRequest && status != http.StatusOK {
			t.Errorf("a bit of byte %d flipped: got the answer %d, want 400 or 200", n, status)
		}
	}
	raw := unpack(t, s.body)
	for n := 0; n < len(raw); n += 5 {
		if status := post(t, keep, url, raw[:n], nil); status != http.StatusBadRequest {
			t.Errorf("not packed, cut at %d: got the answer %d, want 400", n, status)
		}
	}
	if status := post(t, keep, url, s.body, header); status != http.StatusOK {
		t.Errorf("got the answer %d of the good body, want 200", status)
	}
	checkLines(t, in, s.events)
}

func TestToken(t *testing.T) {
	in := sourcetest.New()
	defer in.Close()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("one\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	address, source := start(t, in, func(c *Config) { c.BearerTokenFile = config.SecretFile(token) })
	try := func(path, authorization string, want int) {
		t.Helper()
		header := http.Header{}
		if authorization != "" {
			header.Set("Authorization", authorization)
		}
		if status := post(t, client(), "http://"+address+path, []byte(`[{}]`), header); status != want {
			t.Errorf("%s with %q: got the answer %d, want %d", path, authorization, status, want)
		}
	}
	try("/logs", "Bearer one", 200)
	try("/logs", "bearer one", 200)
	try("/status", "Bearer one", 200)
	try("/logs", "", 401)
	try("/logs", "Bearer on", 401)
	try("/logs", "Bearer one1", 401)
	try("/logs", "Basic one", 401)
	try("/status", "Bearer two", 401)
	if trouble := source.Report().Trouble; !strings.Contains(trouble, "token") || strings.Contains(trouble, "two") {
		t.Errorf("got the trouble %q, want one about a token, without it", trouble)
	}
	if err := os.WriteFile(token, []byte("two"), 0o600); err != nil {
		t.Fatal(err)
	}
	try("/logs", "Bearer one", 401)
	try("/logs", "Bearer two", 200)
	if err := os.Remove(token); err != nil {
		t.Fatal(err)
	}
	try("/logs", "Bearer two", 503)
	if trouble := source.Report().Trouble; !strings.Contains(trouble, token) {
		t.Errorf("got the trouble %q, want one that names the file", trouble)
	}
}

func TestPaths(t *testing.T) {
	in := sourcetest.New()
	defer in.Close()
	address, _ := start(t, in, func(c *Config) { c.Path = "/opa/logs/" })
	for path, want := range map[string]int{
		"/opa/logs": 200, "/opa/logs/": 200, "/opa/logs/part/of/it": 200, "/status": 200, "/status/part": 200,
		"/logs": 404, "/opa/logsx": 404, "/": 404, "/statusx": 404, "/opa": 404,
	} {
		if status := post(t, client(), "http://"+address+path, []byte(`[]`), nil); status != want {
			t.Errorf("%s: got the answer %d, want %d", path, status, want)
		}
	}
}

// With client CAs only who shows a certificate of theirs can send.
func TestMutualTLS(t *testing.T) {
	in := sourcetest.New()
	defer in.Close()
	ca := testcert.NewCA(t)
	pair, mine, other := ca.Issue(t, "127.0.0.1"), ca.Issue(t, "opa"), testcert.NewCA(t).Issue(t, "opa")
	address, _ := start(t, in, func(c *Config) {
		c.TLS = &config.ServerTLS{CertFile: pair.CertFile, KeyFile: pair.KeyFile, ClientCAFile: ca.File}
	})
	try := func(files config.TLS) error {
		files.CAFile = ca.File
		c, err := files.Client()
		if err != nil {
			t.Fatal(err)
		}
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: c, DisableKeepAlives: true}}
		resp, err := client.Post("https://"+address+"/logs", "application/json", strings.NewReader(`[{"decision_id":"a"}]`))
		if err != nil {
			return err
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("got the answer %d, want 200", resp.StatusCode)
		}
		return nil
	}
	if err := try(config.TLS{CertFile: mine.CertFile, KeyFile: mine.KeyFile}); err != nil {
		t.Errorf("got %v with a certificate", err)
	}
	if err := try(config.TLS{}); err == nil {
		t.Error("got an answer without a certificate")
	}
	if err := try(config.TLS{CertFile: other.CertFile, KeyFile: other.KeyFile}); err == nil {
		t.Error("got an answer with a certificate of another CA")
	}
	checkLines(t, in, []string{`{"decision_id":"a"}`})
}

// With client certificates one OPA cannot make docket take a decision of another for known.
func TestDecisionIDsBelongToTheirSender(t *testing.T) {
	in := sourcetest.New()
	defer in.Close()
	ca := testcert.NewCA(t)
	pair := ca.Issue(t, "127.0.0.1")
	address, _ := start(t, in, func(c *Config) {
		c.TLS = &config.ServerTLS{CertFile: pair.CertFile, KeyFile: pair.KeyFile, ClientCAFile: ca.File}
	})
	send := func(client *http.Client, decision string) {
		t.Helper()
		resp, err := client.Post("https://"+address+"/logs", "application/json", strings.NewReader("["+decision+"]"))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("got the answer %d, want 200", resp.StatusCode)
		}
	}
	as := func(name string) *http.Client {
		mine := ca.Issue(t, name)
		c, err := config.TLS{CertFile: mine.CertFile, KeyFile: mine.KeyFile, CAFile: ca.File}.Client()
		if err != nil {
			t.Fatal(err)
		}
		return &http.Client{Transport: &http.Transport{TLSClientConfig: c, DisableKeepAlives: true}}
	}
	hostile, honest := as("hostile"), as("honest")
	send(hostile, `{"decision_id":"a","of":"hostile"}`)
	send(honest, `{"decision_id":"a","of":"honest"}`)
	send(honest, `{"decision_id":"a","of":"honest"}`) // again
	checkLines(t, in, []string{`{"decision_id":"a","of":"hostile"}`, `{"decision_id":"a","of":"honest"}`})
}
