package client

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/docket-export/docket/decision"
	"github.com/docket-export/docket/decision/stream"
)

// Mode says what Export does with a record. The Kubernetes API server uses the same names for its
// audit modes.
type Mode string

// The modes.
const (
	// Batch never makes the caller wait: what finds no room is lost and counted.
	Batch Mode = "Batch"
	// Blocking waits for the exporter's ack, for at most Config.Timeout. Export does
	// not say whether the ack came.
	Blocking Mode = "Blocking"
	// BlockingStrict waits like Blocking and returns an error when the ack did
	// not come: the caller can refuse what it cannot prove.
	BlockingStrict Mode = "BlockingStrict"
)

// Defaults and bounds of Config.
const (
	// DefaultTimeout is a tenth of the time that the API server gives a webhook.
	DefaultTimeout = time.Second
	// DefaultBufferedBytes holds some ten thousand records: seconds of a busy
	// webhook, the time in which an exporter restarts.
	DefaultBufferedBytes = 8 << 20
	// MinBufferedBytes has room for a burst of records of ordinary size.
	MinBufferedBytes = 64 << 10
	// MaxProducer bounds Config.Producer: "/" and a UUID follow it on the wire,
	// where a name has at most stream.MaxProducer bytes.
	MaxProducer = 80
)

// Config configures a Client. Only Address is needed; every other zero value
// stands for the default that is named beside it.
type Config struct {
	// Address of the exporter: unix:///run/docket/docket.sock, or
	// tcp://host:port. The scheme selects the transport. Empty: the client is
	// off.
	Address string
	// Producer is how this producer is called in the exporter's ledger and logs: at most
	// MaxProducer bytes of letters, digits and . _ : / - A random part is added to it, so that two
	// producers of one name never share their numbers. Default: the name of the host, which in
	// Kubernetes is the name of the pod.
	Producer string
	// Mode is what Export does. Default: Batch.
	Mode Mode
	// Timeout bounds one Export in the modes that wait. Default: DefaultTimeout.
	Timeout time.Duration
	// MaxBufferedBytes bounds the memory of the records that the exporter has not acknowledged yet.
	// At least MinBufferedBytes. Default: DefaultBufferedBytes.
	MaxBufferedBytes int
	// Keep says which records are kept longest when that memory is full: those
	// with the first decision. A record with a decision that is not listed is
	// dropped first. Unspecified stands for every other decision, and for none.
	// Default: deny, error, warn, dryrun, allow.
	Keep []decision.Decision
	// TLS protects a tcp connection. nil: no TLS, which is allowed for loopback
	// addresses only.
	TLS *TLSConfig
	// Log is told of connections and losses; never of a record's content. It must
	// not block: Close waits for it. nil: nobody is told.
	Log *slog.Logger
	// Transports are the ways to the exporter beside unix and tcp, by the scheme
	// of the address. One that is named unix or tcp replaces the built-in one.
	Transports map[string]Transport
}

// Validate reports every problem at once, each beginning with the key of the field in a
// configuration file ("maxBufferedBytes: must be at least 64Ki"). The error joins them, each
// a Problem. It touches neither disk nor network, and calls no transport of c.Transports. It
// checks a client that is off too: otherwise a mistake would show only on the day that the
// client is turned on.
func (c *Config) Validate() error {
	found := c.problems()
	errs := make([]error, len(found))
	for i, p := range found {
		errs[i] = p
	}
	return errors.Join(errs...)
}

// Problem is one mistake in a Config.
type Problem struct {
	Key  string // where, as "keep[1]" or "tls.certFile"; empty for all of it
	Text string // what is wrong and what to do: "must be at least 64Ki"
}

func (p Problem) Error() string {
	if p.Key == "" {
		return p.Text
	}
	return p.Key + ": " + p.Text
}

// problems collects what is wrong.
type problems []Problem

func (p *problems) addf(key, format string, args ...any) {
	*p = append(*p, Problem{Key: key, Text: fmt.Sprintf(format, args...)})
}

func (c *Config) problems() problems {
	var found problems
	if c.Address != "" {
		found = append(found, c.addressProblems()...)
	}
	if err := checkProducer(c.Producer); err != nil {
		found.addf("producer", "%v", err)
	}
	if c.Mode != "" {
		if err := checkMode(c.Mode); err != nil {
			found.addf("mode", "%v", err)
		}
	}
	if c.Timeout < 0 {
		found.addf("timeout", "must be more than 0")
	}
	if c.MaxBufferedBytes != 0 && c.MaxBufferedBytes < MinBufferedBytes {
		found.addf("maxBufferedBytes", tooSmall)
	}
	found = append(found, keepProblems(c.Keep)...)
	if c.TLS != nil {
		found = append(found, c.TLS.problems()...)
	}
	return append(found, transportProblems(c.Transports)...)
}

// tooSmall names MinBufferedBytes.
const tooSmall = "must be at least 64Ki"

func checkProducer(name string) error {
	switch {
	case name == "":
		return nil
	case len(name) > MaxProducer:
		return fmt.Errorf("must have at most %d bytes, not %d", MaxProducer, len(name))
	case stream.CheckProducer(name) != nil:
		return errors.New("must consist of letters, digits and . _ : / -")
	}
	return nil
}

func checkMode(m Mode) error {
	switch m {
	case Batch, Blocking, BlockingStrict:
		return nil
	}
	return fmt.Errorf("must be Batch, Blocking or BlockingStrict%s", not(string(m)))
}

// Unspecified stands in Keep, and among the losses, for records without a decision or
// with one that package decision does not know.
const Unspecified decision.Decision = "unspecified"

// defaultKeep ranks by what a reader of the export can least do without.
var defaultKeep = []decision.Decision{decision.Deny, decision.Error, decision.Warn, decision.DryRun, decision.Allow}

func keepProblems(keep []decision.Decision) problems {
	var found problems
	for i, d := range keep {
		key := fmt.Sprintf("keep[%d]", i)
		switch {
		case !slices.Contains(kinds[:], d):
			found.addf(key, "must be deny, error, warn, dryrun, allow or unspecified%s", not(string(d)))
		case slices.Index(keep, d) < i:
			found.addf(key, "must not be repeated: keep[%d] is %s too", slices.Index(keep, d), d)
		}
	}
	return found
}

// not ends a message with the value that was met instead, if there is one.
func not(value string) string {
	const most = 64 // bytes: longer than any value that is allowed there
	switch {
	case value == "":
		return ""
	case len(value) > most:
		return fmt.Sprintf(", not %q...", strings.ToValidUTF8(value[:most], ""))
	}
	return fmt.Sprintf(", not %q", value)
}

// withDefaults returns c with every default filled in. It is c's own: neither
// shares Keep or TLS with the other.
func (c *Config) withDefaults() Config {
	d := *c
	if d.Producer == "" {
		d.Producer = hostProducer()
	}
	if d.Mode == "" {
		d.Mode = Batch
	}
	if d.Timeout == 0 {
		d.Timeout = DefaultTimeout
	}
	if d.MaxBufferedBytes == 0 {
		d.MaxBufferedBytes = DefaultBufferedBytes
	}
	if len(d.Keep) == 0 {
		d.Keep = defaultKeep
	}
	d.Keep = slices.Clone(d.Keep)
	if d.TLS != nil {
		own := *d.TLS
		d.TLS = &own
	}
	if d.Log == nil {
		d.Log = slog.New(slog.DiscardHandler)
	}
	return d
}

// hostProducer is the name of the host. It is empty, and the random part all
// there is, where the host has none that can name a producer.
func hostProducer() string {
	name, err := os.Hostname()
	if err != nil || checkProducer(name) != nil {
		return ""
	}
	return name
}
