package client

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/decision"
)

// elsewhere is a transport from outside of the package.
func elsewhere(string, *Config) (Dial, error) {
	return func(context.Context) (net.Conn, error) { return nil, errors.New("nobody there") }, nil
}

// All that is wrong is reported at once, each with its key.
func TestValidateReportsAll(t *testing.T) {
	c := Config{
		Address:          "tcp://docket.example.com:7443/x",
		Producer:         strings.Repeat("p", MaxProducer+1),
		Mode:             "Strict",
		Timeout:          -1,
		MaxBufferedBytes: -1,
		Keep:             []decision.Decision{"deny", "", "allow", "deny"},
		TLS:              &TLSConfig{KeyFile: "c"},
		Transports:       map[string]Transport{"vsock": nil, "x://": elsewhere},
	}
	want := `address: must be tcp:// and host:port with a port from 1 to 65535
producer: must have at most 80 bytes, not 81
mode: must be Batch, Blocking or BlockingStrict, not "Strict"
timeout: must be more than 0
maxBufferedBytes: must be at least 64Ki
keep[1]: must be deny, error, warn, dryrun, allow or unspecified
keep[3]: must not be repeated: keep[0] is deny too
tls.certFile: must be set because keyFile is
transports[vsock]: must not be nil
transports: a scheme must not be empty or contain ://, not "x://"`
	if err := c.Validate(); err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func TestWithDefaults(t *testing.T) {
	c := new(Config).withDefaults()
	host, err := os.Hostname()
	if err != nil || checkProducer(host) != nil {
		t.Fatalf("got host name %q, %v, want one that can name a producer", host, err)
	}
	if c.Log == nil || c.Log.Enabled(t.Context(), slog.LevelError) {
		t.Errorf("got log %v, want one that is silent", c.Log)
	}
	c.Log = nil
	want := Config{
		Producer: host, Mode: Batch, Timeout: time.Second, MaxBufferedBytes: 8 << 20,
		Keep: []decision.Decision{decision.Deny, decision.Error, decision.Warn, decision.DryRun, decision.Allow},
	}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("got %+v\nwant %+v", c, want)
	}
	if err := c.Validate(); err != nil {
		t.Errorf("the defaults: got %v, want no error", err)
	}
}

// What is set stays, and is not shared with the caller, who may change it.
func TestWithDefaultsKeepsAndCopies(t *testing.T) {
	c := Config{
		Address: "vsock://2:1", Producer: "p", Mode: Blocking, Timeout: 1, MaxBufferedBytes: MinBufferedBytes,
		Keep: []decision.Decision{decision.Warn}, TLS: &TLSConfig{CAFile: "a"}, Log: slog.Default(),
	}
	d := c.withDefaults()
	if !reflect.DeepEqual(d, c) {
		t.Errorf("got %+v\nwant %+v", d, c)
	}
	c.Keep[0], c.TLS.CAFile = decision.Allow, "b"
	if d.Keep[0] != decision.Warn || d.TLS.CAFile != "a" {
		t.Errorf("got keep %v and caFile %s, want warn and a: they are shared", d.Keep, d.TLS.CAFile)
	}
	d = new(Config).withDefaults()
	d.Keep[0] = decision.Allow
	if again := new(Config).withDefaults(); again.Keep[0] != decision.Deny {
		t.Errorf("got default keep %v, want deny first: it is shared", again.Keep)
	}
}
