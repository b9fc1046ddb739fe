package fairconn

import (
	"bytes"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/docket-export/docket/internal/testcert"
)

// Each peer could fill the log with handshakes that it breaks off.
func TestFailedHandshakesAreNotLogged(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	said, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr := os.Stderr
	os.Stderr = w
	secure := &tls.Config{Certificates: []tls.Certificate{testcert.NewCA(t).Issue(t, "127.0.0.1").TLS}}
	stop := Serve(l, secure, http.NotFoundHandler(), func(err error) { t.Error(err) })
	os.Stderr = stderr
	nc, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if _, err := nc.Write([]byte("no handshake at all\n")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(nc); err != nil { // net/http logs before it closes
		t.Fatal(err)
	}
	stop()
	w.Close()
	if text, err := io.ReadAll(said); err != nil || len(text) > 0 {
		t.Errorf("got %q, %v, want no word of the handshake", text, err)
	}
}

// What else net/http has to say, such as that a handler panics, is logged.
func TestPanicsAreLogged(t *testing.T) {
	var b bytes.Buffer
	log.New(withoutHandshakes{&b}, "", 0).Print("http: panic serving 10.0.0.1:1234: bug")
	if !strings.Contains(b.String(), "panic serving") {
		t.Errorf("got %q, want the panic", b.String())
	}
}
