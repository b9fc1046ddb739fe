package tapcmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/docket-export/docket/client"
	"github.com/docket-export/docket/internal/descriptors"
	"github.com/docket-export/docket/webhook"
	"github.com/docket-export/docket/webhook/serving"
	"github.com/docket-export/docket/webhook/tap"
)

// run serves until ctx is done, and then stops by the rules of webhook/serving.
func run(ctx context.Context, cfg *Config, log *slog.Logger) error {
	if err := checkTLSDir(cfg.TLSDir); err != nil {
		return err
	}
	counts := newMetrics()
	var server *serving.Server
	proxy, err := tap.New(tap.Config{
		Upstream:   cfg.Upstream.URL,
		CAFile:     cfg.Upstream.CAFile,
		ServerName: cfg.Upstream.ServerName,
		Names:      func() []string { return namesOf(server) },
		Log:        log,
		Observe:    counts.ended,
	})
	if err != nil {
		return err
	}
	defer proxy.Close()
	settings := cfg.Docket.client()
	settings.Log = log
	c, err := client.New(settings)
	if err != nil {
		return fmt.Errorf("docket: %w", err)
	}
	counts.registerClient(c)
	server, err = serving.New(serving.Config{
		Address:        cfg.Listen,
		TLSDir:         cfg.TLSDir,
		Handler:        webhook.Log(proxy, c, cfg.options(log, counts)),
		WaitFor:        []serving.Check{{Name: "engine", Ready: proxy.Ready}},
		ShutdownDelay:  delayOf(time.Duration(cfg.ShutdownDelay)),
		MaxConnections: connectionsWithin(descriptors.Limit()),
		MaxRequests:    maxRequests,
		Drain:          func(ctx context.Context) error { return drain(ctx, c) },
		Log:            log,
	})
	if err != nil {
		return err
	}
	if cfg.Metrics.Address != "" {
		stop, err := serveMetrics(cfg.Metrics.Address, server, counts, log)
		if err != nil {
			return listenError("metrics", cfg.Metrics.Address, err)
		}
		defer stop()
	}
	if cfg.Docket.Address == "" {
		log.Warn("nothing is recorded: the address of docket is empty")
	}
	return listenError("listen", cfg.Listen, server.Run(ctx))
}

// options are those of the handler that makes records.
func (c *Config) options(log *slog.Logger, counts *metrics) webhook.Options {
	preset, _ := webhook.ParsePreset(c.Preset) // which was checked
	pod, _ := os.Hostname()                    // that of the pod in Kubernetes
	return webhook.Options{
		Decisions: c.Decisions,
		Include:   c.Include,
		Preset:    preset,
		Cluster:   c.Cluster,
		Pod:       pod,
		Log:       log,
		Observe:   counts.reviewed,
	}
}

// delayOf is d for serving.Config, where 0 stands for the default.
func delayOf(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}

// drain closes c and says what is lost with it.
func drain(ctx context.Context, c *client.Client) error {
	left, err := c.Close(ctx)
	if left > 0 {
		return fmt.Errorf("%d records are lost: docket has not acknowledged them: %w", left, err)
	}
	return nil
}

// checkTLSDir refuses what no later change of the files would mend. The files themselves
// may come later: a controller may have to make them first.
func checkTLSDir(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return fmt.Errorf("certificates: %w: mount the Secret with tls.crt and tls.key there, or name another directory with --tls-dir", err)
	case !info.IsDir():
		return fmt.Errorf("certificates: %s is not a directory: set --tls-dir to the directory of tls.crt and tls.key", dir)
	}
	for _, name := range []string{"tls.crt", "tls.key"} {
		f, err := os.Open(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrPermission) {
			return fmt.Errorf("certificates: %w: let user %d read the file, in Kubernetes with fsGroup or defaultMode", err, os.Geteuid())
		}
		if err == nil {
			f.Close() // read only: nothing can be lost
		}
	}
	return nil
}

// namesOf returns the names of the certificate in use.
func namesOf(server *serving.Server) (names []string) {
	pair, err := server.Certificate()
	if err != nil {
		return nil
	}
	names = append(names, pair.Leaf.DNSNames...)
	for _, ip := range pair.Leaf.IPAddresses {
		names = append(names, ip.String())
	}
	return names
}

// listenError says what to do if err is that of a listener.
func listenError(what, address string, err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%s on %s: the port is in use, perhaps by the engine: choose another port with --%s: %w", what, address, what, err)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("%s on %s: ports below 1024 need a capability: choose another port with --%s: %w", what, address, what, err)
	}
	return err
}

// probe answers with what check says.
func probe(check func(*http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := check(r); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	}
}
