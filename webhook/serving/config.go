package serving

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"strings"
	"time"
)

// Config is what a Server needs. A duration or number that is not positive means its default.
type Config struct {
	// Address is where to listen: host:port, with an empty host on every address.
	Address string
	// TLSDir has the files tls.crt and tls.key, as a mounted Secret of type kubernetes.io/tls has
	// them. They are read again when a client connects, at most once a second. A pair that cannot
	// be used never replaces a good pair: half-written, a key of another certificate, expired, not
	// yet valid. The last good pair stays in use, and the failure is logged once. The directory may
	// be empty at first, as it is where a controller makes the certificate: until there is a pair,
	// every handshake fails.
	TLSDir string
	// TLS has further settings, such as ClientCAs. Its certificates are not used.
	TLS *tls.Config
	// Handler serves the requests. The contexts of requests do not end when the server
	// begins to stop.
	Handler http.Handler
	// WaitFor is what must be there for the server to be ready.
	WaitFor []Check
	// Drain is called once, when nothing is in flight any more, and Run returns after it:
	// the place to close docket's client. Its context ends after DrainTimeout.
	Drain func(context.Context) error

	// ShutdownDelay is how long the server goes on serving when it was told to stop,
	// until all clients know. Default: 10s; negative: none.
	ShutdownDelay time.Duration
	// FinishTimeout is how long the requests in flight may then take. Default: 10s,
	// as long as an API server waits for a webhook unless it is told otherwise.
	FinishTimeout time.Duration
	// DrainTimeout bounds Drain. Default: 5s. With the two above it makes 25 of the 30
	// seconds that Kubernetes gives a pod to end.
	DrainTimeout time.Duration

	// MaxConnections bounds the open connections. One address may have half of them. A
	// connection too many is closed at once. Default: 256.
	MaxConnections int
	// MaxRequests bounds the requests at a time on all connections. A request too many gets
	// 503. Default: 1024, more than the API servers of a cluster have under way.
	MaxRequests int
	// HeaderTimeout bounds the TLS handshake, and the time in which the header of a
	// request must arrive. Default: 10s.
	HeaderTimeout time.Duration
	// BodyTimeout bounds the time in which the body of a request must arrive. Default:
	// 30s, the longest that an API server waits for a webhook.
	BodyTimeout time.Duration
	// RequestTimeout bounds the time from the header of a request to the end of its answer,
	// for clients that do not read. Default: 60s.
	RequestTimeout time.Duration

	// Log is told of the certificate, of the start and the stop, and of handlers that
	// panic; at debug level of connections that fail. nil: nothing is logged.
	Log *slog.Logger
}

func (c *Config) validate() error {
	var problems []error
	if c.Handler == nil {
		problems = append(problems, errors.New("no Handler"))
	}
	if c.TLSDir == "" {
		problems = append(problems, errors.New("no TLSDir"))
	}
	for i, check := range c.WaitFor {
		if check.Name == "" || check.Ready == nil {
			problems = append(problems, fmt.Errorf("WaitFor[%d]: must have a name and a function", i))
		}
	}
	if len(problems) > 0 {
		return fmt.Errorf("serving: %w", errors.Join(problems...))
	}
	return nil
}

func (c *Config) setDefaults() {
	c.ShutdownDelay = max(cmp.Or(c.ShutdownDelay, 10*time.Second), 0)
	c.FinishTimeout = positive(c.FinishTimeout, 10*time.Second)
	c.DrainTimeout = positive(c.DrainTimeout, 5*time.Second)
	c.MaxConnections = positive(c.MaxConnections, 256)
	c.MaxRequests = positive(c.MaxRequests, 1024)
	c.HeaderTimeout = positive(c.HeaderTimeout, 10*time.Second)
	c.BodyTimeout = positive(c.BodyTimeout, 30*time.Second)
	c.RequestTimeout = positive(c.RequestTimeout, time.Minute)
	c.TLS = cmp.Or(c.TLS, &tls.Config{})
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Drain == nil {
		c.Drain = func(context.Context) error { return nil }
	}
}

func positive[T int | time.Duration](n, otherwise T) T {
	if n > 0 {
		return n
	}
	return otherwise
}

// errorLog is for http.Server, whose lines tell of two things: handlers that panic, and
// connections that fail, which every scan of ports makes.
func errorLog(to *slog.Logger) *log.Logger { return log.New(errorWriter{to}, "", 0) }

type errorWriter struct{ to *slog.Logger }

func (w errorWriter) Write(line []byte) (int, error) {
	text := strings.TrimSuffix(string(line), "\n")
	if strings.HasPrefix(text, "http: panic") || strings.HasPrefix(text, "http2: panic") {
		w.to.Error("a handler panicked", "error", text)
	} else {
		w.to.Debug("a connection failed", "error", text)
	}
	return len(line), nil
}
