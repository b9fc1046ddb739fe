//go:build soak

package fairconn

import (
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/docket-export/docket/internal/descriptors"
)

// An endpoint whose places all have clients that do not read answers others long before it
// gives the clients up.
func TestManyThatDoNotRead(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	endless := make([]byte, 64<<20)
	defer Serve(l, nil, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/endless" {
			w.Write(endless)
		}
	}), func(err error) { t.Error(err) })()
	for range descriptors.EndpointConnections(descriptors.Limit()) {
		nc, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		io.WriteString(nc, "GET /endless HTTP/1.1\r\nHost: x\r\n\r\n")
		if _, err := nc.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	began := time.Now()
	for tick := time.Tick(10 * time.Millisecond); ; <-tick {
		res, err := client.Get("http://" + l.Addr().String())
		if err == nil {
			res.Body.Close()
			break
		}
		if time.Since(began) > WriteTimeout/2 {
			t.Fatalf("got %v for %v, want an answer", err, time.Since(began))
		}
	}
}
