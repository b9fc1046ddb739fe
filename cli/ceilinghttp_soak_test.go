//go:build soak

package cli

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/docket-export/docket/internal/testcert"
)

// knock lets n peers write text to an address and stay, until ctx is done.
func knock(ctx context.Context, address string, n int, text string) {
	for range n {
		nc, err := net.Dial("tcp", address)
		if err != nil {
			continue
		}
		defer nc.Close()
		nc.SetDeadline(time.Now().Add(attackTime))
		io.WriteString(nc, text)
	}
	<-ctx.Done()
}

// httpAttacks are those on the listeners that speak HTTP or TLS.
func httpAttacks() []attack {
	opa := "- name: opa\n  opa: {address: \"OTHER\"}"
	post := func(body []byte) string {
		return fmt.Sprintf("POST /logs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	}
	bomb := packed("[" + strings.Repeat("[],", 3<<20) + "{}]")
	return []attack{
		{name: "2,000 idle connections to admin", run: func(ctx context.Context, a *arena) { knock(ctx, a.admin, 2000, "") }},
		{name: "2,000 times GET /livez and no more", run: func(ctx context.Context, a *arena) {
			knock(ctx, a.admin, 2000, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
		}},
		{name: "2,000 slow admin requests", run: func(ctx context.Context, a *arena) {
			knock(ctx, a.admin, 2000, "GET /status HTTP/1.1\r\nHost: localhost\r\nX: "+strings.Repeat("x", 3000))
		}},
		{name: "GET /status and /metrics from 20", run: func(ctx context.Context, a *arena) {
			var wg sync.WaitGroup
			for range 20 {
				wg.Go(func() {
					for ctx.Err() == nil {
						for _, page := range []string{"/status", "/metrics"} {
							if res, err := http.Get("http://" + a.admin + page); err == nil {
								io.Copy(io.Discard, res.Body)
								res.Body.Close()
							}
						}
					}
				})
			}
			wg.Wait()
		}},
		{name: "20 gzip bombs to opa", sources: opa, run: func(ctx context.Context, a *arena) { knock(ctx, a.other, 20, post(bomb)) }},
		{name: "1,000 slow uploads to opa", sources: opa, run: func(ctx context.Context, a *arena) {
			knock(ctx, a.other, 1000, post(bomb)[:1000])
		}},
		{
			name:    "2,000 TLS handshakes begun",
			sources: "- name: remote\n  tcp: {address: \"OTHER\", tls: {certFile: DIR/tls.crt, keyFile: DIR/tls.key}}",
			prepare: func(a *arena) {
				pair := testcert.NewCA(a.t).Issue(a.t, "docket")
				writeFile(a.t, filepath.Join(a.dir, "tls.crt"), pair.CertPEM)
				writeFile(a.t, filepath.Join(a.dir, "tls.key"), pair.KeyPEM)
			},
			run: func(ctx context.Context, a *arena) {
				knock(ctx, a.other, 2000, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
			},
		},
	}
}

func packed(text string) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	io.WriteString(w, text)
	w.Close()
	return b.Bytes()
}

// sinkAttacks are those while records cannot be delivered.
func sinkAttacks() []attack {
	return []attack{{name: "a flood with two sinks down", run: func(ctx context.Context, a *arena) {
		a.each(ctx, 8, func(_ int, nc net.Conn) {
			io.WriteString(nc, strings.Repeat(`{"pad":"`+strings.Repeat("x", 1000)+"\"}\n", 12000))
		})
	}}}
}
