package client

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestAddresses(t *testing.T) {
	long := "/" + strings.Repeat("x", maxSocketPath-1)
	for address, want := range map[string]string{
		"unix://" + long:              "",
		"tcp://localhost:7443":        "",
		"tcp://127.8.9.1:7443":        "",
		"tcp://[::1]:7443":            "",
		"tcp://[::ffff:127.0.0.1]:80": "",
		"vsock://2:1":                 "",

		"unix://" + long + "x":       "must have a path of at most 107 bytes, not 108",
		"unix://run/x":               "must have an absolute path, with three slashes: did you mean unix:///run/x?",
		"/run/x":                     "must be unix:// and an absolute path, such as unix:///run/docket/docket.sock, or tcp:// and host:port",
		"unix://":                    "must name a socket",
		"unix:///":                   "must name a socket",
		"unix:///run/docket/":        "must name a socket",
		"unix:///a\x00b":             "must not have a zero byte",
		"unix://@docket":             "must not be an abstract socket (@), because any process could take its name",
		"@docket":                    "must be unix:// and an absolute path",
		"unix://\x00docket":          "must not be an abstract socket (@)",
		"localhost:7443":             "must be unix:// and an absolute path",
		"docket":                     "must be unix:// and an absolute path",
		"tcp://localhost":            "must be tcp:// and host:port such as",
		"tcp://:7443":                "must be tcp:// and host:port such as",
		"tcp://::1:7443":             "must be tcp:// and host:port such as",
		"tcp://localhost:7443/x":     "must be tcp:// and host:port with a port from 1 to 65535",
		"tcp://localhost:0":          "must be tcp:// and host:port with a port from 1 to 65535",
		"tcp://localhost:65536":      "must be tcp:// and host:port with a port from 1 to 65535",
		"tcp://localhost:https":      "must be tcp:// and host:port with a port from 1 to 65535",
		"tcp://10.0.0.1:7443":        "must be a loopback address unless tls is set",
		"tcp://0.0.0.0:7443":         "must be a loopback address",
		"tcp://localhost.test:7443":  "must be a loopback address",
		"http://localhost:7443":      `must have a known scheme: tcp, unix, vsock, not "http"`,
		"UNIX:///run/x":              `must have a known scheme: tcp, unix, vsock, not "UNIX"`,
		"://x":                       "must have a known scheme: tcp, unix, vsock",
		" unix:///run/x":             `must have a known scheme: tcp, unix, vsock, not " unix"`,
		"tcp://me:secret@docket:1":   "must be tcp:// and host:port such as",
		"tcp://me:secret@docket/a:1": "must be tcp:// and host:port such as",
		"me:secret@docket:7443":      "must be unix:// and an absolute path",
	} {
		t.Run(address, func(t *testing.T) {
			c := Config{Address: address, Transports: map[string]Transport{"vsock": elsewhere}}
			err := c.Validate()
			_, dialErr := c.dial()
			if want == "" {
				if err != nil || dialErr != nil {
					t.Errorf("got %v from Validate and %v from dial, want no errors", err, dialErr)
				}
				return
			}
			if err == nil || !strings.HasPrefix(err.Error(), "address: "+want) {
				t.Fatalf("got %v, want %s", err, want)
			}
			if dialErr == nil || dialErr.Error() != err.Error() {
				t.Errorf("dial: got %v, want what Validate says: %v", dialErr, err)
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("the password is in the message: %v", err)
			}
		})
	}
}

// A transport from outside gets the address and the Config; its error is one of
// the address.
func TestTransportFromOutside(t *testing.T) {
	c := Config{Address: "pipe://x"}
	var near, far net.Conn
	c.Transports = map[string]Transport{"pipe": func(address string, of *Config) (Dial, error) {
		if address != "pipe://x" || of != &c {
			t.Errorf("got address %q and config %p, want pipe://x and %p", address, of, &c)
		}
		near, far = net.Pipe()
		return func(context.Context) (net.Conn, error) { return near, nil }, nil
	}}
	nc, err := mustDial(t, &c)(t.Context())
	if err != nil || nc != near {
		t.Errorf("got %v, %v, want the end of the pipe", nc, err)
	}
	near.Close()
	far.Close()

	c.Transports["pipe"] = func(string, *Config) (Dial, error) { return nil, errors.New("must be longer") }
	if _, err := c.dial(); err == nil || err.Error() != "address: must be longer" {
		t.Errorf("got %v, want address: must be longer", err)
	}
	c.Transports["pipe"] = func(string, *Config) (Dial, error) { return nil, nil }
	if _, err := c.dial(); err == nil {
		t.Error("a transport that makes nothing: got no error")
	}
}

// An attempt ends by itself, because nothing comes back from some addresses.
func TestAttemptIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Config{Address: "hole://x", Transports: map[string]Transport{"hole": func(string, *Config) (Dial, error) {
			return func(ctx context.Context) (net.Conn, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}, nil
		}}}
		began := time.Now()
		_, err := mustDial(t, &c)(context.Background())
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took != 5*time.Second {
			t.Errorf("got %v after %v, want deadline exceeded after 5s", err, took)
		}
	})
}

func listenOn(t *testing.T, network, address string) net.Listener {
	t.Helper()
	ln, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return ln
}

func mustDial(t *testing.T, c *Config) Dial {
	t.Helper()
	dial, err := c.dial()
	if err != nil {
		t.Fatalf("make dial: %v", err)
	}
	return dial
}
