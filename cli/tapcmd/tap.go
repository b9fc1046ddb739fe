// Package tapcmd has the command that stands in front of an admission webhook: docket tap.
package tapcmd

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/docket-export/docket/cli/internal/command"
	"github.com/docket-export/docket/client"
	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/internal/memlimit"
	"github.com/docket-export/docket/webhook"
)

// gcPercent: a tap has some megabytes in use, and each review makes garbage. A third of its
// processor time went into collecting that at 30 percent; docs/benchmarks.md has the figures.
const gcPercent = 60

// New returns docket tap.
func New() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tap --listen ADDR --tls-dir DIR --upstream URL --docket ADDR",
		Short: "Record the admission decisions of an engine, as a proxy",
		Long: `tap is a proxy between the API server and an admission webhook, in the pod of
the webhook. It records the webhook's decisions with docket. It passes every
request to the engine and every answer back, byte for byte and on every path.
Only admission reviews are recorded.

With --mode Batch, the default, a verdict never waits for its record, and docket
may be away, full or killed. Records without room are counted as lost. Blocking
waits for the record up to docket.timeout. BlockingStrict answers 500 when the
record cannot be stored.

tap answers 502 at once when it cannot reach the engine, and 504 when the engine
takes longer than the API server waits. It never sends a review twice. tap is
ready when it serves its certificate and the engine answers a TLS handshake. On
SIGTERM it becomes unready, serves on for --shutdown-delay, and then finishes
the requests in progress. A second signal ends it at once.

tap reads the certificates in --tls-dir, and --upstream-ca, again when they
change. On a loopback address the engine may show a certificate for any name in
tap's own certificate, as when both mount the same Secret.`,
		Example: `  docket tap --listen :8443 --tls-dir /certs \
    --upstream https://127.0.0.1:8444 --upstream-ca /certs/ca.crt \
    --docket unix:///run/docket/docket.sock --preset gatekeeper --metrics :9466
  docket tap -f tap.yaml           the same from a file of kind Tap; see docs/tap.md
  docket check -f tap.yaml         everything that is wrong with it`,
		Args: command.NoArgs,
	}
	f := flags{config: defaultConfig()}
	f.add(cmd)
	newLog := command.LogFlags(cmd, os.Stderr)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := f.load(cmd)
		if err != nil {
			return err
		}
		log := newLog()
		memlimit.For(os.Getenv, memlimit.Program{Ceiling: cfg.MemoryCeiling(), GCPercent: gcPercent}, log).Apply()
		defer command.LastWords(cmd.Context(), func() string {
			return "docket tap: ended at once by a second signal: requests in progress are cut off"
		})()
		return command.Failed(run(cmd.Context(), cfg, log))
	}
	return cmd
}

// flags are those that say what tap does. Without a file they are all there is.
type flags struct {
	file      string
	config    Config
	decisions string
	include   string
	mode      string
}

// flagOf names the flag of each key of Config that has one, as both have to be found by
// who reads a message.
var flagOf = map[string]string{
	"listen": "listen", "tlsDir": "tls-dir", "upstream.url": "upstream", "upstream.caFile": "upstream-ca",
	"docket.address": "docket", "docket.mode": "mode", "decisions": "decisions", "include": "include",
	"preset": "preset", "shutdownDelay": "shutdown-delay", "metrics.address": "metrics",
}

func (f *flags) add(cmd *cobra.Command) {
	c, set := &f.config, cmd.Flags()
	set.StringVarP(&f.file, "file", "f", "", "file of kind Tap, instead of the flags below")
	set.StringVar(&c.Listen, "listen", c.Listen, "address at which the API server connects")
	set.StringVar(&c.TLSDir, "tls-dir", "", "directory with tls.crt and tls.key")
	set.StringVar(&c.Upstream.URL, "upstream", "", "URL of the engine, such as https://127.0.0.1:8444")
	set.StringVar(&c.Upstream.CAFile, "upstream-ca", "", "file of the CA that issued the engine's certificate (default the system's CAs)")
	set.StringVar(&c.Docket.Address, "docket", "", "address of docket, such as unix:///run/docket/docket.sock; '' records nothing")
	set.StringVar(&f.decisions, "decisions", "deny,warn,error", "decisions to record; you can add allow")
	set.StringVar(&f.include, "include", "", "contents to record: object,oldObject,patch; they may hold secrets")
	set.StringVar(&c.Preset, "preset", "", "engine whose messages are split into violations: gatekeeper, kyverno or validatingadmissionpolicy (default one record a review)")
	set.StringVar(&f.mode, "mode", string(c.Docket.Mode), "how verdicts depend on records: Batch, Blocking or BlockingStrict")
	set.Var(command.Duration{To: (*time.Duration)(&c.ShutdownDelay)}, "shutdown-delay", "how long to serve on after SIGTERM, until clients know")
	set.StringVar(&c.Metrics.Address, "metrics", "", "address of /livez, /readyz and /metrics, such as :9466 (default none)")
}

// load returns the configuration that the file or the flags make.
func (f *flags) load(cmd *cobra.Command) (*Config, error) {
	if cmd.Flags().Changed("file") {
		return f.loadFile(cmd)
	}
	c := f.config
	c.Docket.Mode = client.Mode(f.mode)
	var p config.Problems
	var err error
	if c.Decisions, err = webhook.ParseDecisions(f.decisions); err != nil {
		p.Check("decisions", err)
		c.Decisions = defaultConfig().Decisions
	}
	if c.Include, err = webhook.ParseInclude(f.include); err != nil {
		p.Check("include", err)
	}
	p = append(p, c.validate(cmd.Flags().Changed("docket"))...)
	if len(p) == 0 {
		return &c, nil
	}
	texts := make([]string, len(p))
	for i, problem := range p {
		texts[i] = problem.String()
		if flag, ok := flagOf[problem.Path]; ok {
			texts[i] = "--" + flag + ": " + problem.Text
		}
	}
	return nil, errors.New(strings.Join(texts, "\n        "))
}

func (f *flags) loadFile(cmd *cobra.Command) (*Config, error) {
	for key, flag := range flagOf {
		if cmd.Flags().Changed(flag) {
			return nil, fmt.Errorf("--%s and --file exclude each other: in the file, set %s", flag, key)
		}
	}
	text, err := command.ReadConfig(f.file)
	if err != nil {
		return nil, err
	}
	c, problems := Load(text)
	if len(problems) > 0 {
		return nil, &command.ConfigError{File: f.file, Problems: problems}
	}
	return c, nil
}
