// Package cli is the command line of docket-webhook.
//
//	cli.go          Main, exit codes, flags that commands share, version
//	serve.go        the program of a pod: webhook, audit, status
//	cluster.go      what that has in a cluster alone
//	certificate.go  the certificate of its listener
//	health.go       what it says of itself: probes, states, metrics
//	offline.go      validate, review, audit: for pipelines
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/docket-export/docket/client"
)

// The exit codes of every command.
const (
	exitOK     = 0
	exitFailed = 1 // failed while running, or what was looked at is denied or not valid
	exitUsage  = 2 // usage
)

// version is set by builds of a release; without it, it is what the go command recorded.
var version string

// Main runs the command that os.Args select, and ends the process. SIGTERM and SIGINT end the
// command, a second one at once.
func Main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	// From the first signal on they have their usual effect again.
	context.AfterFunc(ctx, stop)
	os.Exit(Execute(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// failure is what went wrong once a command was at work. Every other error is about how it was
// called.
type failure struct{ err error }

func (f failure) Error() string { return f.err.Error() }
func (f failure) Unwrap() error { return f.err }

func failed(err error) error {
	if err == nil {
		return nil
	}
	return failure{err}
}

// errFound ends a command that has said already what it found.
var errFound = errors.New("found")

// Execute runs a command and returns its exit code.
func Execute(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int {
	root := newServe()
	root.AddCommand(newValidate(), newReview(), newAudit(), newVersion())
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errs)
	cmd, err := root.ExecuteContextC(ctx)
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errFound):
		return exitFailed
	case errors.As(err, new(failure)):
		fmt.Fprintf(errs, "%s: %v\n", cmd.CommandPath(), err)
		return exitFailed
	}
	fmt.Fprintf(errs, "%s: %v\nRun '%s --help'\n", cmd.CommandPath(), err, cmd.CommandPath())
	return exitUsage
}

func noArgs(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("unexpected argument %q", args[0])
	}
	return nil
}

func newVersion() *cobra.Command {
	return &cobra.Command{Use: "version", Short: "Print the version", Args: noArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		build := "devel"
		if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "(devel)" {
			build = cmp.Or(info.Main.Version, build)
		}
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "docket-webhook %s %s %s/%s\n", cmp.Or(version, build), runtime.Version(), runtime.GOOS, runtime.GOARCH)
		return failed(err)
	}}
}

// common are the flags of every command that has policies.
type common struct {
	policyDir, kubeconfig, cluster string
	docketAddress, docketMode      string
	logFormat                      string
	logLevel                       slog.Level
}

func (c *common) add(cmd *cobra.Command, docketAddress string, level slog.Level) {
	set := cmd.Flags()
	set.StringVar(&c.policyDir, "policy-dir", "", "directory of YAML and JSON files with the policies, instead of a cluster")
	set.StringVar(&c.cluster, "cluster-name", "", "name of the cluster, for records")
	set.StringVar(&c.docketAddress, "docket-address", docketAddress, "address of docket; '' records nothing")
	set.StringVar(&c.logFormat, "log-format", "", "text or json (default text on a terminal, json otherwise)")
	set.TextVar(&c.logLevel, "log-level", level, "debug, info, warn or error")
}

func (c *common) addKubeconfig(cmd *cobra.Command) {
	cmd.Flags().StringVar(&c.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster (default the pod's own cluster)")
}

// log returns the log, which client-go shares.
func (c *common) log(w io.Writer) (*slog.Logger, error) {
	if c.logFormat == "" {
		c.logFormat = "json"
		if f, ok := w.(*os.File); ok {
			if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
				c.logFormat = "text"
			}
		}
	}
	options := &slog.HandlerOptions{Level: c.logLevel}
	var handler slog.Handler = slog.NewTextHandler(w, options)
	switch c.logFormat {
	case "text":
	case "json":
		handler = slog.NewJSONHandler(w, options)
	default:
		return nil, fmt.Errorf("--log-format: must be text or json, not %q", c.logFormat)
	}
	log := slog.New(handler)
	klog.SetSlogLogger(log)
	return log, nil
}

// rest returns the cluster that the flags name, or the pod's.
func (c *common) rest() (config *rest.Config, err error) {
	if c.kubeconfig != "" {
		if config, err = clientcmd.BuildConfigFromFlags("", c.kubeconfig); err != nil {
			return nil, fmt.Errorf("--kubeconfig: %w", err)
		}
	} else if config, err = rest.InClusterConfig(); errors.Is(err, rest.ErrNotInCluster) {
		return nil, errors.New("no policies: name a directory with --policy-dir or, outside of a pod, a cluster with --kubeconfig")
	} else if err != nil {
		return nil, failed(err)
	}
	config.QPS, config.Burst = 50, 100 // by default 5 a second, which delays the status of many policies
	return config, nil
}

// client returns that of docket, nil if nothing is recorded.
func (c *common) client(log *slog.Logger) (*client.Client, error) {
	if c.docketAddress == "" {
		return nil, nil //nolint:nilnil // a nil Client is off
	}
	made, err := client.New(client.Config{Address: c.docketAddress, Mode: client.Mode(c.docketMode), Log: log})
	if err != nil {
		return nil, fmt.Errorf("--docket-address, --docket-mode: %w", err)
	}
	return made, nil
}

// checkPolicyDir checks that --policy-dir can be read at all.
func (c *common) checkPolicyDir() error {
	if c.policyDir == "" {
		return errors.New("--policy-dir is required: a directory with ConstraintTemplates and constraints")
	}
	if _, err := os.ReadDir(c.policyDir); err != nil {
		return fmt.Errorf("--policy-dir: %w: name a directory with ConstraintTemplates and constraints", err)
	}
	return nil
}
