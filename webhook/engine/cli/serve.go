package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/docket-export/docket/client"
	"github.com/docket-export/docket/webhook"
	"github.com/docket-export/docket/webhook/engine/admission"
	"github.com/docket-export/docket/webhook/engine/directory"
	"github.com/docket-export/docket/webhook/engine/podstatus"
	"github.com/docket-export/docket/webhook/engine/policy"
	"github.com/docket-export/docket/webhook/engine/settings"
	"github.com/docket-export/docket/webhook/serving"
)

// bodyTimeout bounds the time in which a review arrives: an API server has it in memory, and sends it at once.
const bodyTimeout = 5 * time.Second

// The operations. A program has one, or several.
const (
	webhookOperation = "webhook"
	auditOperation   = "audit"
	statusOperation  = "status"
)

// options are the flags of docket-webhook, by Gatekeeper's names where they mean the same.
type options struct {
	common
	operations       []string
	port, prometheus int
	certDir, health  string
	clientCA         string
	clientCN         string
	selfSigned       bool
	cacheDir         string
	onError          string
	exempt           admission.ExemptNamespaces
	logDenies        bool
	shutdownDelay    time.Duration
	auditInterval    int
	auditChunkSize   int64
	auditMatchKind   bool
	besideGatekeeper bool
}

func newServe() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "docket-webhook",
		Short: "Enforce policies, and record every decision",
		Long: `docket-webhook answers admission reviews and audits the objects of a cluster
with Gatekeeper's policies: ConstraintTemplates in Rego or CEL, and their
constraints. It sends each violation to docket as a record.

Try it without a cluster:

  docket-webhook --policy-dir policies --cert-dir certs --self-signed --docket-address ''`,
		Args:          noArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	cmd.CompletionOptions.DisableDefaultCmd = true
	o.add(cmd, "unix:///run/docket/docket.sock", slog.LevelInfo)
	o.addKubeconfig(cmd)
	set := cmd.Flags()
	set.StringArrayVar(&o.operations, "operation", nil, "webhook, audit or status; may be repeated (default all, with --policy-dir webhook)")
	set.IntVar(&o.port, "port", 8443, "port of the webhook, which answers POST /v1/admit")
	set.StringVar(&o.certDir, "cert-dir", "/certs", "directory with tls.crt and tls.key, read again when they change")
	set.BoolVar(&o.selfSigned, "self-signed", false, "make a certificate for localhost in --cert-dir if there is none, to try it out")
	set.StringVar(&o.clientCA, "client-ca-name", "", "file in --cert-dir with the CAs of clients; requests of others are refused (default any client)")
	set.StringVar(&o.clientCN, "client-cn-name", "kube-apiserver", "common name in the certificate of a client, with --client-ca-name")
	set.StringVar(&o.health, "health-addr", ":9090", "address of /livez, /readyz and /states")
	set.IntVar(&o.prometheus, "prometheus-port", 8888, "port of /metrics")
	set.StringVar(&o.cacheDir, "cache-dir", "", "directory for the last valid revisions of --policy-dir (default "+directory.CacheName+" in it, if it can be written)")
	set.StringVar(&o.onError, "on-policy-error", string(policy.KeepLast), "what to do with a policy that cannot be loaded: KeepLast, Reject or Ignore")
	set.StringVar(&o.docketMode, "docket-mode", string(client.Batch), "how verdicts depend on records: Batch, Blocking or BlockingStrict")
	set.StringArrayVar(&o.exempt.Names, "exempt-namespace", nil, "namespace whose requests are allowed; may be repeated")
	set.StringArrayVar(&o.exempt.Prefixes, "exempt-namespace-prefix", nil, "prefix of such namespaces; may be repeated")
	set.StringArrayVar(&o.exempt.Suffixes, "exempt-namespace-suffix", nil, "suffix of such namespaces; may be repeated")
	set.BoolVar(&o.logDenies, "log-denies", false, "log every violation")
	set.DurationVar(&o.shutdownDelay, "shutdown-delay", 10*time.Second, "how long to serve on after SIGTERM, until clients know")
	set.IntVar(&o.auditInterval, "audit-interval", 60, "seconds from the start of one audit to the next; 0 for no audit")
	set.Int64Var(&o.auditChunkSize, "audit-chunk-size", 500, "objects that an audit asks for at a time")
	set.BoolVar(&o.auditMatchKind, "audit-match-kind-only", false, "audit only kinds that a constraint matches")
	set.BoolVar(&o.besideGatekeeper, "beside-gatekeeper", false, "start although Gatekeeper enforces the same policies")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		log, err := o.log(cmd.ErrOrStderr())
		if err == nil {
			err = o.check()
		}
		if err != nil {
			return err
		}
		return o.serve(cmd.Context(), log)
	}
	return cmd
}

// check completes and checks what needs no look at a cluster.
func (o *options) check() error {
	known := []string{webhookOperation, auditOperation, statusOperation}
	for _, operation := range o.operations {
		if !slices.Contains(known, operation) {
			return fmt.Errorf("--operation: must be webhook, audit or status, not %q", operation)
		}
		if o.policyDir != "" && operation != webhookOperation {
			return fmt.Errorf("--operation %s needs a cluster, and with --policy-dir there is none: see docket-webhook audit --once", operation)
		}
	}
	if len(o.operations) == 0 {
		if o.operations = known; o.policyDir != "" {
			o.operations = []string{webhookOperation}
		}
	}
	if o.auditInterval < 0 {
		return fmt.Errorf("--audit-interval: must be seconds, or 0 for no audit, not %d", o.auditInterval)
	}
	if o.auditInterval == 0 {
		o.operations = slices.DeleteFunc(o.operations, func(operation string) bool { return operation == auditOperation })
	}
	if o.auditChunkSize < 0 {
		return fmt.Errorf("--audit-chunk-size: must be a number of objects, not %d", o.auditChunkSize)
	}
	if o.shutdownDelay == 0 {
		o.shutdownDelay = -1 // none, for package serving
	}
	if o.policyDir != "" {
		return o.checkPolicyDir()
	}
	return nil
}

func (o *options) has(operation string) bool { return slices.Contains(o.operations, operation) }

// source is where policies, data and settings are from.
type source interface {
	Run(ctx context.Context) error
	Ready(ctx context.Context) error
	Namespace(ctx context.Context, name string) (*corev1.Namespace, error)
	Excluded(process settings.Process, namespace string) bool
}

// files is the source that --policy-dir names.
type files struct{ *directory.Directory }

func (f files) Run(ctx context.Context) error {
	f.Directory.Run(ctx)
	return nil
}

func (f files) Excluded(process settings.Process, namespace string) bool {
	return f.Settings().Excluded(process, namespace)
}

// engine is a running docket-webhook.
type engine struct {
	*options
	log      *slog.Logger
	client   *client.Client
	set      *policy.Set
	source   source
	problems func() []directory.Problem // in files
	pod      pod
	metered  *metrics

	rest    *rest.Config // nil: no cluster
	dynamic dynamic.Interface
	writer  *podstatus.Writer
}

// serve runs until ctx is done, and as long as the rules of package serving ask for.
func (o *options) serve(ctx context.Context, log *slog.Logger) (err error) {
	e := &engine{options: o, log: log, problems: func() []directory.Problem { return nil }, pod: thisPod()}
	build := e.fromDirectory
	if o.policyDir == "" {
		if e.rest, err = o.rest(); err != nil {
			return err
		}
		build = e.fromCluster
	}
	if o.has(webhookOperation) {
		if err := o.checkCertificates(); err != nil {
			return err
		}
	}
	if err := build(); err != nil {
		return err
	}
	// The last of the checks: docket hears of a webhook that starts, and of no mistake in its flags.
	if e.client, err = o.client(log); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.drain()) }()
	if o.docketAddress == "" {
		log.Warn("nothing is recorded: --docket-address is empty")
	}
	e.metered = newMetrics(e)
	return failed(e.run(ctx))
}

// drain brings the last records to docket.
func (e *engine) drain() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if left, err := e.client.Close(ctx); left > 0 {
		return failed(fmt.Errorf("%d records are lost, docket has not acknowledged them: %w", left, err))
	}
	return nil
}

// fromDirectory makes the source of --policy-dir.
func (e *engine) fromDirectory() error {
	cache, err := directory.OpenCache(cmp.Or(e.cacheDir, filepath.Join(e.policyDir, directory.CacheName)))
	if err != nil && e.cacheDir != "" {
		return fmt.Errorf("--cache-dir: %w", err)
	}
	var options policy.Options
	if err != nil {
		cache = nil
		e.log.Warn("last valid revisions are lost at a restart: name a directory for them with --cache-dir", "error", err)
	} else {
		options.Revisions = cache
	}
	if err := e.makeSet(options); err != nil {
		return err
	}
	d := directory.New(directory.Config{Paths: []string{e.policyDir}, Policies: e.set, Cache: cache, Log: e.log})
	e.source, e.problems = files{d}, d.Problems
	return nil
}

func (e *engine) makeSet(o policy.Options) (err error) {
	o.OnError, o.Log = policy.OnError(e.onError), e.log
	if e.set, err = policy.New(o); err != nil {
		return fmt.Errorf("--on-policy-error: %w", err)
	}
	return nil
}

// run serves until ctx is done, or a part fails. Policies are kept up to date until the last
// request has its answer.
func (e *engine) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	background, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	ready, live := func(r *http.Request) error { return e.source.Ready(r.Context()) }, func(*http.Request) error { return nil }
	serveWebhook := func() error { <-ctx.Done(); return nil }
	if e.has(webhookOperation) {
		server, err := e.server()
		if err != nil {
			return err
		}
		ready, live = server.Ready, server.Live
		serveWebhook = func() error { return server.Run(ctx) }
	}
	endpoints, err := e.listen(ready, live)
	if err != nil {
		return err
	}
	var parts errgroup.Group
	start := func(name string, run func() error) {
		parts.Go(func() error {
			err := run()
			if err != nil {
				err = fmt.Errorf("%s: %w", name, err)
				cancel() // what serves, and so everything
			}
			return err
		})
	}
	for _, p := range endpoints {
		start(p.flag, func() error { return p.serve(background) })
	}
	start("policies", func() error { return e.source.Run(background) })
	start("policies", func() error { return e.set.Run(background) })
	if e.rest != nil {
		err = e.startCluster(ctx, background, start)
	}
	if err == nil {
		err = serveWebhook()
	}
	cancel()
	end()
	return errors.Join(err, parts.Wait())
}

// endpoint is a listener without TLS.
type endpoint struct {
	flag     string // that has its address
	listener net.Listener
	server   *http.Server
}

// listen returns the endpoints beside the webhook.
func (e *engine) listen(ready, live func(*http.Request) error) ([]endpoint, error) {
	endpoints := []endpoint{
		{flag: "--health-addr", server: &http.Server{Addr: e.health, Handler: e.healthHandler(ready, live)}},
		{flag: "--prometheus-port", server: &http.Server{Addr: fmt.Sprintf(":%d", e.prometheus), Handler: e.metered.handler()}},
	}
	for i := range endpoints {
		p := &endpoints[i]
		p.server.ReadHeaderTimeout, p.server.IdleTimeout = 10*time.Second, time.Minute
		p.server.ErrorLog = slog.NewLogLogger(e.log.Handler(), slog.LevelDebug)
		var err error
		if p.listener, err = net.Listen("tcp", p.server.Addr); err != nil {
			for _, opened := range endpoints[:i] {
				err = errors.Join(err, opened.listener.Close())
			}
			return nil, fmt.Errorf("%s: %w", p.flag, err)
		}
		e.log.Info("listening", "flag", p.flag, "address", p.listener.Addr().String())
	}
	return endpoints, nil
}

// serve answers until ctx is done.
func (p endpoint) serve(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() { _ = p.server.Close() })()
	if err := p.server.Serve(p.listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// server is the webhook.
func (e *engine) server() (*serving.Server, error) {
	return serving.New(serving.Config{
		Address:       fmt.Sprintf(":%d", e.port),
		TLSDir:        e.certDir,
		TLS:           e.clientTLS(),
		Handler:       e.mux(),
		BodyTimeout:   bodyTimeout,
		WaitFor:       []serving.Check{{Name: "policies", Ready: e.source.Ready}},
		ShutdownDelay: e.shutdownDelay,
		Log:           e.log,
	})
}

func (e *engine) mux() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/v1/admit", admission.Handler(admission.Config{
		Policies:  e.set,
		Namespace: e.source.Namespace,
		Exempt: func(namespace string) bool {
			return e.exempt.Exempt(namespace) || e.source.Excluded(settings.Webhook, namespace)
		},
		User:      e.user(),
		Client:    e.client,
		Records:   webhook.Options{Cluster: e.cluster, Pod: e.pod.name, Log: e.log},
		LogDenies: e.logDenies,
		Observe:   e.metered.reviewed,
		Log:       e.log,
	}))
	return mux
}
