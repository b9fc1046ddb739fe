package cli

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const selfSigned = "localhost" // is the name in the certificates of selfSign

// Only clients with a certificate of the CA and of that name are served, and the CA may change.
func TestClientCA(t *testing.T) {
	one, two := t.TempDir(), t.TempDir()
	pair := func(dir string) (pair tls.Certificate) {
		err := selfSign(dir)
		if err == nil {
			pair, err = tls.LoadX509KeyPair(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"))
		}
		if err != nil {
			t.Fatal(err)
		}
		return pair
	}
	first, second := pair(one), pair(two)
	o := options{certDir: one, clientCA: "tls.crt", clientCN: selfSigned}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.TLS = o.clientTLS()
	server.StartTLS()
	defer server.Close()
	expect := func(name string, want bool, certificates ...tls.Certificate) {
		t.Helper()
		transport := server.Client().Transport.(*http.Transport).Clone()
		transport.TLSClientConfig.Certificates, transport.DisableKeepAlives = certificates, true
		response, err := (&http.Client{Transport: transport}).Get(server.URL)
		if err == nil {
			response.Body.Close()
		}
		if (err == nil) != want {
			t.Errorf("%s: got %v, want served: %t", name, err, want)
		}
	}
	expect("no certificate", false)
	expect("the CA's", true, first)
	expect("another CA's", false, second)
	text, err := os.ReadFile(filepath.Join(two, "tls.crt"))
	if err == nil {
		err = os.WriteFile(filepath.Join(one, "tls.crt"), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	expect("the CA's of before", false, first)
	expect("the new CA's", true, second)
	o.clientCN = "kube-apiserver"
	expect("another name", false, second)
	o.clientCA = "none"
	if err := o.checkCertificates(); err == nil || !strings.HasPrefix(err.Error(), "--client-ca-name: ") {
		t.Errorf("without the file: got %v, want an error of the flag", err)
	}
	if o.clientCA = ""; o.clientTLS() != nil {
		t.Error("without a CA: got settings of TLS, want none")
	}
}

// The webhook is ready, and answers nobody without a certificate.
func TestServeClientCA(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir("policies", 0o700); err != nil {
		t.Fatal(err)
	}
	p := startProgram(t, "--policy-dir", "policies", "--cert-dir", "certs", "--self-signed", "--docket-address", "", "--client-ca-name", "tls.crt")
	for {
		if code, _ := p.get("--health-addr", "/readyz"); code == http.StatusOK {
			break
		}
	}
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	if response, err := client.Get("https://" + p.addr["serving"] + "/v1/admit"); err == nil {
		response.Body.Close()
		t.Errorf("got %s without a certificate, want no answer", response.Status)
	}
}
