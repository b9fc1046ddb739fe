package exporter

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/internal/testcert"
)

// listening starts the listener for metrics and returns where it listens.
func listening(t *testing.T, e *Exporter, cfg MetricsConfig) (address string) {
	t.Helper()
	if cfg.Address == "" {
		cfg.Address = "127.0.0.1:0"
	}
	e.serveMetrics(&cfg)
	t.Cleanup(func() { e.serveMetrics(nil) })
	await.Until(t, "listening", func() bool { return e.Status().Metrics.State == Active })
	return e.Status().Metrics.Address
}

// scrape asks for path; its error is that of the connection.
func scrape(client *http.Client, url, host string) (status int, body, proto string, err error) {
	r, err := http.NewRequest(http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, "", "", err
	}
	r.Host = host
	res, err := client.Do(r)
	if err != nil {
		return 0, "", "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return res.StatusCode, string(text), res.Proto, err
}

// The listener answers its three paths to everybody, and nothing else that the admin
// endpoint has.
func TestMetricsListenerHasThreePaths(t *testing.T) {
	e := letterExporter(t, 1)
	e.config().Admin.Pprof = true
	address := listening(t, e, MetricsConfig{})
	for path, want := range map[string]struct {
		status int
		body   string
	}{
		"/metrics":              {200, "docket_build_info{"},
		"/readyz":               {200, "ok"},
		"/livez":                {200, "ok"},
		"/":                     {404, ""},
		"/status":               {404, ""},
		"/events":               {404, ""},
		"/deadletters":          {404, ""},
		"/deadletters/siem":     {404, ""},
		"/queue":                {404, ""},
		"/queue/records":        {404, ""},
		"/debug/pprof/":         {404, ""},
		"/debug/pprof/heap":     {404, ""},
		"/metrics/":             {404, ""},
		"/metrics/../status":    {404, ""},
		"/metrics%2f..%2fqueue": {404, ""},
	} {
		status, body, _, err := scrape(http.DefaultClient, "http://"+address+path, "docket.example.com:9465")
		if err != nil || status != want.status || !strings.Contains(body, want.body) {
			t.Errorf("%s of a foreign host: got %d %.60q, %v, want %d with %q", path, status, body, err, want.status, want.body)
		}
	}
	res, err := http.Post("http://"+address+"/readyz", "text/plain", http.NoBody)
	if err != nil || res.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST /readyz: got %v, %v, want 405", res, err)
	}
	if err == nil {
		res.Body.Close()
	}
}

// clientOf trusts ca and shows the given certificates.
func clientOf(ca testcert.CA, certificates ...tls.Certificate) *http.Client {
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: ca.Pool, Certificates: certificates, NextProtos: []string{"h2", "http/1.1"}}, DisableKeepAlives: true, ForceAttemptHTTP2: true,
	}}
}

// With TLS a renewed certificate is in use at once, clients can be asked for one of
// theirs, and what is wrong with the files is in the status. HTTP/2 is not offered: its
// streams would need a bound of their own.
func TestMetricsListenerOverTLS(t *testing.T) {
	e := letterExporter(t)
	first, second, clients := testcert.NewCA(t), testcert.NewCA(t), testcert.NewCA(t)
	pair := first.Issue(t, "127.0.0.1")
	files := &config.ServerTLS{CertFile: pair.CertFile, KeyFile: pair.KeyFile, ClientCAFile: clients.File}
	address := listening(t, e, MetricsConfig{TLS: files})
	url := "https://" + address + "/metrics"
	shown := clients.Issue(t, "prometheus").TLS

	if status, _, proto, err := scrape(clientOf(first, shown), url, ""); err != nil || status != 200 || proto != "HTTP/1.1" {
		t.Errorf("got %d over %s, %v, want 200 over HTTP/1.1", status, proto, err)
	}
	if status, _, _, err := scrape(clientOf(first), url, ""); err == nil {
		t.Errorf("without a certificate: got %d, want no connection", status)
	}
	renewed := second.Issue(t, "127.0.0.1")
	replace(t, pair.CertFile, renewed.CertFile)
	replace(t, pair.KeyFile, renewed.KeyFile)
	if status, _, _, err := scrape(clientOf(second, shown), url, ""); err != nil || status != 200 {
		t.Errorf("after the renewal: got %d, %v, want 200 with the new certificate", status, err)
	}
	if err := os.Truncate(pair.KeyFile, 0); err != nil {
		t.Fatal(err)
	}
	if status, _, _, err := scrape(clientOf(second, shown), url, ""); err == nil {
		t.Errorf("without a key: got %d, want no connection", status)
	}
	if s := e.Status().Metrics; s.State != Error || !strings.Contains(s.Reason, pair.KeyFile) {
		t.Errorf("without a key: got %+v, want Error that names %s", s, pair.KeyFile)
	}
	replace(t, pair.KeyFile, renewed.KeyFile)
	if status, _, _, err := scrape(clientOf(second, shown), url, ""); err != nil || status != 200 || e.Status().Metrics.State != Active {
		t.Errorf("with a key again: got %d, %v, %+v, want 200 and Active", status, err, e.Status().Metrics)
	}
}

func replace(t *testing.T, path, with string) {
	t.Helper()
	text, err := os.ReadFile(with)
	if err == nil {
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// An address in use, or a certificate that is missing, is reported and tried again.
func TestMetricsListenerComesLate(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := letterExporter(t)
	pair := testcert.NewCA(t).Issue(t, "127.0.0.1")
	hidden := pair.CertFile + ".later"
	if err := os.Rename(pair.CertFile, hidden); err != nil {
		t.Fatal(err)
	}
	e.serveMetrics(&MetricsConfig{Address: taken.Addr().String(), TLS: &config.ServerTLS{CertFile: pair.CertFile, KeyFile: pair.KeyFile}})
	t.Cleanup(func() { e.serveMetrics(nil) })
	says := func(state State, text string) func() bool {
		return func() bool {
			s := e.Status().Metrics
			return s.State == state && strings.Contains(s.Reason, text)
		}
	}
	await.Until(t, "word of the certificate", says(Error, pair.CertFile))
	if err := os.Rename(hidden, pair.CertFile); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "word of the address", says(Error, "check that metrics.address is free"))
	taken.Close()
	await.Until(t, "the listener", says(Active, ""))
}

// silentPeers are 300 that connect and send nothing.
func silentPeers(t *testing.T, address string) (all []net.Conn) {
	t.Helper()
	for range 300 {
		nc, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nc.Close() })
		all = append(all, nc)
	}
	return all
}

// Peers that connect and send nothing do not keep the kubelet out.
func TestMetricsListenerIsShared(t *testing.T) {
	e := letterExporter(t)
	address := listening(t, e, MetricsConfig{})
	silentPeers(t, address)
	client := &http.Client{Timeout: await.Left(t)}
	for range 3 {
		if status, _, _, err := scrape(client, "http://"+address+"/livez", ""); err != nil || status != 200 {
			t.Errorf("beside 300 silent peers: got %d, %v, want 200", status, err)
		}
	}
}

// A queue that cannot write is no reason not to have started.
func TestReadyWithoutQueue(t *testing.T) {
	e := letterExporter(t)
	h := ownHost(e.adminHandler(true))
	if status, _ := get(t, h, "/readyz?exclude=queue"); status != http.StatusOK {
		t.Errorf("got %d, want 200", status)
	}
	close(e.stopping)
	if status, body := get(t, h, "/readyz?exclude=queue"); status != http.StatusServiceUnavailable || body != "stopping\n" {
		t.Errorf("at the end: got %d %q, want 503", status, body)
	}
}

// heldScrape is a metric that is not collected before release is closed.
type heldScrape struct{ began, release chan struct{} }

func (heldScrape) Describe(chan<- *prometheus.Desc) {}

func (h heldScrape) Collect(chan<- prometheus.Metric) {
	h.began <- struct{}{}
	<-h.release
}

// One who scrapes without a pause does not hold the lock of the queue without a pause.
func TestScrapesAreBounded(t *testing.T) {
	e := letterExporter(t)
	held := heldScrape{make(chan struct{}), make(chan struct{})}
	e.metrics.registry.MustRegister(held)
	address := listening(t, e, MetricsConfig{})
	statuses := make(chan int, maxScrapes)
	for range maxScrapes {
		go func() {
			status, _, _, _ := scrape(http.DefaultClient, "http://"+address+"/metrics", "")
			statuses <- status
		}()
		<-held.began
	}
	next := make(chan int)
	go func() {
		status, _, _, _ := scrape(http.DefaultClient, "http://"+address+"/metrics", "")
		next <- status
	}()
	select {
	case status := <-next:
		if status != http.StatusServiceUnavailable {
			t.Errorf("beside %d scrapes: got %d, want 503", maxScrapes, status)
		}
	case <-held.began:
		t.Errorf("got %d scrapes at a time, want %d", maxScrapes+1, maxScrapes)
	}
	if status, _, _, err := scrape(http.DefaultClient, "http://"+address+"/livez", ""); err != nil || status != http.StatusOK {
		t.Errorf("beside scrapes, /livez: got %d, %v, want 200", status, err)
	}
	close(held.release)
	for range maxScrapes {
		if status := <-statuses; status != http.StatusOK {
			t.Errorf("got %d for a scrape in time, want 200", status)
		}
	}
}

// A reload leaves a listener that is the same alone, replaces one that differs, and ends one
// that is gone. No key of it waits for a restart.
func TestMetricsListenerIsReloaded(t *testing.T) {
	e := letterExporter(t)
	address := listening(t, e, MetricsConfig{})
	before := e.metricsListener.Load()
	e.serveMetrics(&MetricsConfig{Address: "127.0.0.1:0"})
	if e.metricsListener.Load() != before {
		t.Error("the same listener was started anew")
	}
	pair := testcert.NewCA(t).Issue(t, "127.0.0.1")
	changed := Config{Metrics: &MetricsConfig{Address: address, TLS: &config.ServerTLS{CertFile: pair.CertFile, KeyFile: pair.KeyFile}}}
	e.serveMetrics(changed.Metrics)
	await.Until(t, "TLS at the same address", func() bool {
		s := e.Status().Metrics
		status, _, _, _ := scrape(http.DefaultClient, "http://"+address+"/livez", "")
		return s.State == Active && s.Address == address && status == http.StatusBadRequest // it is HTTPS now
	})
	e.serveMetrics(nil)
	if status, _, _, err := scrape(http.DefaultClient, "http://"+address+"/livez", ""); err == nil || e.Status().Metrics != nil {
		t.Errorf("without metrics.address: got %d and %+v, want no listener", status, e.Status().Metrics)
	}
	for _, pair := range [][2]*Config{{{}, &changed}, {&changed, {Metrics: &MetricsConfig{Address: ":1"}}}, {&changed, {}}} {
		changes, err := Changes(pair[0], pair[1])
		if err != nil || len(changes) == 0 || len(waitingKeys(changes)) > 0 {
			t.Errorf("got %+v, %v, want changes that take effect", changes, err)
		}
		if now := pair[1].inForce(pair[0]); now.Metrics != pair[1].Metrics {
			t.Errorf("got %+v in force, want %+v", now.Metrics, pair[1].Metrics)
		}
	}
}
