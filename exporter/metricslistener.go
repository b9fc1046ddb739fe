package exporter

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"reflect"
	"sync"
	"time"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/internal/fairconn"
)

// metricsListener answers on metrics.address. What is in its way, an address in use or a
// certificate that is not there yet, must not keep docket from taking records: it is
// reported and tried again.
type metricsListener struct {
	cfg  MetricsConfig
	log  *slog.Logger
	stop func() // waits until nobody is served any more

	mu     sync.Mutex
	status MetricsStatus // guarded by mu
}

// serveMetrics has the listener that cfg describes serve metrics, readiness and liveness to
// everybody who can connect, in place of the one there is; nil: none. One that is the same
// goes on. The Host of a request does not matter: all that a page in a browser could read is
// what anybody on the network can.
func (e *Exporter) serveMetrics(cfg *MetricsConfig) {
	old := e.metricsListener.Load()
	if old != nil && cfg != nil && reflect.DeepEqual(old.cfg, *cfg) {
		return
	}
	if old != nil {
		old.stop()
		e.metricsListener.Store(nil)
	}
	if cfg == nil {
		return
	}
	mux := http.NewServeMux()
	e.handleProbes(mux)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	l := &metricsListener{
		cfg: *cfg, log: e.log, status: MetricsStatus{State: Degraded, Reason: "starting"},
		stop: func() { cancel(); <-ended },
	}
	e.metricsListener.Store(l)
	go func() { defer close(ended); l.run(ctx, mux) }()
}

// listenRetry is between two attempts to listen: what is in the way goes soon, or stays.
var listenRetry = RetryConfig{InitialBackoff: config.Duration(100 * time.Millisecond), MaxBackoff: config.Duration(5 * time.Second)}

func (l *metricsListener) run(ctx context.Context, h http.Handler) {
	pause := newBackoff(listenRetry)
	for {
		err := l.serve(ctx, h, pause.Reset)
		if ctx.Err() != nil {
			return
		}
		l.set(Error, err.Error(), "")
		wait(ctx, pause.NextBackOff())
	}
}

// serve answers until ctx is done, or nobody can connect any more, which is the error.
// listens is called once peers can connect.
func (l *metricsListener) serve(ctx context.Context, h http.Handler, listens func()) error {
	var secure *tls.Config
	if l.cfg.TLS != nil {
		var err error
		if secure, err = l.cfg.TLS.Server(); err != nil {
			return err
		}
	}
	ln, err := net.Listen("tcp", l.cfg.Address)
	if err != nil {
		return fmt.Errorf("%w: check that metrics.address is free and is an address of this machine", err)
	}
	address := ln.Addr().String()
	if secure != nil {
		current := secure.GetConfigForClient
		secure.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			cfg, err := current(hello)
			if err != nil {
				l.set(Error, "nobody can connect: "+err.Error(), address)
			} else {
				l.set(Active, "", address)
			}
			return cfg, err
		}
	}
	failed := make(chan error, 1)
	defer fairconn.Serve(ln, secure, h, func(err error) { failed <- err })()
	listens()
	l.set(Active, "", address)
	look := time.NewTicker(disk.LookEvery)
	defer look.Stop()
	for {
		select {
		case err := <-failed:
			return err
		case <-look.C:
			if secure != nil {
				_, _ = secure.GetConfigForClient(nil) // which says what has become of the certificates
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// set logs what is news.
func (l *metricsListener) set(state State, reason, address string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.status
	l.status = MetricsStatus{State: state, Reason: reason, Address: address}
	switch {
	case before == l.status:
	case state == Active:
		l.log.Info("metrics are served", "address", address, "tls", l.cfg.TLS != nil)
	default:
		l.log.Error("metrics are not served; docket tries again", "address", l.cfg.Address, "error", reason)
	}
}

func (l *metricsListener) snapshot() *MetricsStatus {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.status
	return &s
}
