package config

import (
	"crypto/tls"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
)

// ServerTLS is how a server shows who it is, and whose clients it lets in.
type ServerTLS struct {
	// CertFile holds the server's certificate and its chain, in PEM form.
	CertFile string `yaml:"certFile" file:"public"`
	// KeyFile holds the key of that certificate, in PEM form.
	KeyFile string `yaml:"keyFile" file:"secret"`
	// ClientCAFile holds the certificates of CAs, in PEM form. A client must then
	// show a certificate that one of them has signed. Empty: none is asked for.
	ClientCAFile string `yaml:"clientCAFile" file:"public"`
}

// Validate reports what is missing. It does not touch the files. A nil ServerTLS is valid.
func (t *ServerTLS) Validate() Problems {
	if t == nil {
		return nil
	}
	var p Problems
	p.Check("certFile", Required(t.CertFile, "is required: the server's certificate and its chain, in PEM form"))
	p.Check("keyFile", Required(t.KeyFile, "is required: the key of the server's certificate, in PEM form"))
	return p
}

// Server makes a configuration for connections of clients, TLS 1.2 or newer. An error
// means that a file is missing or not usable, and names the file.
//
// The files are checked for every handshake and read again when one of them has
// changed: rotated files are in use from the next connection on. Files that cannot be
// read, or do not fit together, fail the handshake. The error names the files, and
// comes from the server's side of the handshake.
func (t ServerTLS) Server() (*tls.Config, error) {
	files := &serverFiles{paths: t}
	if _, err := files.current(); err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return files.current()
		},
	}, nil
}

// serverFiles holds what the files of a ServerTLS held when they were last read.
// Connections share it: each keeps its configuration for as long as it lives.
type serverFiles struct {
	paths ServerTLS

	mu      sync.Mutex
	version string      // of the files that config was made of; guarded by mu
	config  *tls.Config // guarded by mu; what it points to does not change
}

// current returns the configuration that the files make now.
func (f *serverFiles) current() (*tls.Config, error) {
	// Before the files are read: what changes meanwhile is read next time.
	version := fileVersions(f.paths.CertFile, f.paths.KeyFile, f.paths.ClientCAFile)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.config != nil && f.version == version {
		return f.config, nil
	}
	c, err := f.paths.read()
	if err != nil {
		return nil, err
	}
	f.version, f.config = version, c
	return c, nil
}

func (t ServerTLS) read() (*tls.Config, error) {
	pair, err := readPair(t.CertFile, t.KeyFile)
	if err != nil {
		return nil, err
	}
	c := &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{*pair},
		// A resumed session would rest on what was verified under older files.
		SessionTicketsDisabled: true,
	}
	if t.ClientCAFile != "" {
		if c.ClientCAs, err = readCAs(t.ClientCAFile); err != nil {
			return nil, err
		}
		c.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return c, nil
}

// fileVersions names the state of files; it costs one stat each. A file that
// cannot be seen has a state too.
func fileVersions(paths ...string) string {
	var b strings.Builder
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil {
			fmt.Fprintf(&b, "%d-%d", info.ModTime().UnixNano(), info.Size())
			if file, ok := info.Sys().(*syscall.Stat_t); ok { // a copy may have both of the original
				fmt.Fprintf(&b, "-%d", file.Ino)
			}
		}
		b.WriteByte(' ')
	}
	return b.String()
}
