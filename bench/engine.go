package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/docket-export/docket/bench/process"
	"github.com/docket-export/docket/bench/trial"
)

// engineMain is the least that an admission engine does: it serves over TLS, HTTP/2 too,
// reads a review and answers. It never ends by itself.
func engineMain(_ context.Context, args []string, _ io.Writer) error {
	if len(args) != 2 {
		return errors.New("want an address and a directory with tls.crt and tls.key")
	}
	server := &http.Server{Addr: args[0], Handler: http.HandlerFunc(decide), ReadHeaderTimeout: process.RequestWait}
	return server.ListenAndServeTLS(filepath.Join(args[1], "tls.crt"), filepath.Join(args[1], "tls.key"))
}

// decide denies what is called deniedName.
func decide(w http.ResponseWriter, r *http.Request) {
	text := make([]byte, max(r.ContentLength, 0))
	if _, err := io.ReadFull(r.Body, text); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	_, rest, _ := bytes.Cut(text, []byte(`"uid":"`))
	uid, rest, ok := bytes.Cut(rest, []byte(`"`))
	_, rest, named := bytes.Cut(rest, []byte(`"name":"`))
	if !ok || !named {
		http.Error(w, fmt.Sprintf("%d bytes are no review", len(text)), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(verdict(string(uid), bytes.HasPrefix(rest, []byte(deniedName)))) // the client finds out
}

// writePair makes a certificate for 127.0.0.1, which is its own CA, and its key: tls.crt
// and tls.key in dir.
func writePair(dir string) {
	key := trial.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotBefore:    time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	for name, block := range map[string]pem.Block{
		"tls.crt": {Type: "CERTIFICATE", Bytes: trial.Must(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))},
		"tls.key": {Type: "PRIVATE KEY", Bytes: trial.Must(x509.MarshalPKCS8PrivateKey(key))},
	} {
		trial.Check(os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(&block), 0o600))
	}
}
