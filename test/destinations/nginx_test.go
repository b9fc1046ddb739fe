package destinations

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/docket-export/docket/internal/testcert"
	"github.com/docket-export/docket/test/dockettest"
	"github.com/docket-export/docket/test/internal/freeport"
	"github.com/docket-export/docket/test/internal/poll"
	"github.com/docket-export/docket/test/internal/proc"
)

// nginx answers 400 to a client certificate that has expired, as it does to a bad request. That is
// no verdict on the records: all of them arrive once the certificate is renewed.
func TestExpiredClientCertificateAtNginx(t *testing.T) {
	bin, err := exec.LookPath("/usr/sbin/nginx")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("no nginx here: install nginx-light")
		}
		t.Skip("no nginx here: install nginx-light")
	}
	addresses, err := freeport.Loopback(1)
	if err != nil {
		t.Fatal(err)
	}
	ca := testcert.NewCA(t)
	server, expired, renewed := ca.Issue(t, "127.0.0.1"), ca.IssueExpired(t, "docket"), ca.Issue(t, "docket")
	startNginx(t, bin, addresses[0], server, ca.File)

	d := dockettest.New(t)
	cert, key := filepath.Join(d.Dir, "client.crt"), filepath.Join(d.Dir, "client.key")
	install := func(p testcert.Pair) {
		t.Helper()
		for file, text := range map[string]string{key: p.KeyPEM, cert: p.CertPEM} {
			if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(file+".new", file); err != nil {
				t.Fatal(err)
			}
		}
	}
	install(expired)
	d.Start(config(d, fmt.Sprintf("url: https://%s/ingest\ntls: {caFile: %q, certFile: %q, keyFile: %q}", addresses[0], ca.File, cert, key)))
	const n = 2000
	d.Send(text(readLines(t).first(n)))
	d.Await("the sink says that it is misconfigured", deliverTimeout, failing("Error", "Misconfigured"))
	if letters := readLetters(t, d); len(letters) > 0 {
		t.Errorf("%d records are set aside while every one is refused, such as %+v", len(letters), letters[0])
	}
	install(renewed)
	d.Await("every record arrives with the renewed certificate", deliverTimeout, delivered(n))
	if letters := readLetters(t, d); len(letters) > 0 {
		t.Errorf("%d records are set aside, such as %+v", len(letters), letters[0])
	}
}

// startNginx runs an nginx that takes everything from those who have a certificate of ca.
func startNginx(t *testing.T, bin, address string, server testcert.Pair, ca string) {
	t.Helper()
	dir := t.TempDir()
	conf := filepath.Join(dir, "nginx.conf")
	text := fmt.Sprintf(`daemon off; worker_processes 1; pid %[1]s/pid; error_log stderr;
events { worker_connections 64; }
http {
  access_log off;
  client_body_temp_path %[1]s/b; proxy_temp_path %[1]s/p; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;
  server {
    listen %[2]s ssl; ssl_certificate %[3]s; ssl_certificate_key %[4]s; ssl_client_certificate %[5]s; ssl_verify_client on;
    client_max_body_size 8m;
    location / { return 204; }
  }
}
`, dir, address, server.CertFile, server.KeyFile, ca)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := proc.Start(exec.Command(bin, "-c", conf, "-p", dir))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Kill() })
	if err := poll.Until(deliverTimeout, func() error {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
		}
		return err
	}); err != nil {
		t.Fatalf("nginx: %v", err)
	}
}
