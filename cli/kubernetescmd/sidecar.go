// Package kubernetescmd has the commands about docket in a pod: docket kubernetes.
package kubernetescmd

import (
	"errors"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/docket-export/docket/cli/internal/command"
	"github.com/docket-export/docket/cli/tapcmd"
	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/exporter"
)

// New returns docket kubernetes.
func New(kinds exporter.Kinds) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "kubernetes",
		Short: "Write manifests for docket in a pod",
	}
	command.Group(cmd, newSidecar(kinds))
	return cmd
}

// defaultShutdownDelay is how long most engines have: the grace period of a pod that says
// nothing.
const defaultShutdownDelay = 30 * time.Second

func newSidecar(kinds exporter.Kinds) *cobra.Command {
	o := options{shutdownDelay: defaultShutdownDelay}
	cmd := &cobra.Command{
		Use:   "sidecar -f FILE",
		Short: "Write the sidecar container for an engine's pod, sized for a configuration",
		Long: `sidecar reads a configuration and writes the part of a pod that docket needs:
container, probes, volumes, grace period and fsGroup. It computes the sizes from
the configuration, and comments explain them:

  volume         all that docket keeps on disk at its bounds; Kubernetes evicts a
                 pod whose emptyDir grows beyond its sizeLimit
  memory limit   the ceiling that docket check prints, and two probes
  grace period   --shutdown-delay, shutdown.drainTimeout and 10 s

docket is a native sidecar: it starts before the engine and stops after it. With
--plain docket is an ordinary container. A preStop pause of --shutdown-delay then
keeps docket running while the engine stops.

The pod mounts the ConfigMap --config-map at /etc/docket, the directory of the
socket at /run/docket and the volume at /var/lib/docket. The engine's container
(--engine) mounts /run/docket as well.

sidecar rejects a configuration that cannot work in the pod, and writes nothing.
Causes are a queue or an export outside the volume, an export without a bound,
a socket that the engine cannot reach, and a file outside the container's
volumes.

-o patch writes a strategic merge patch of the Deployment --name, for kubectl
and kustomize.`,
		Example: `  docket kubernetes sidecar -f docket.yaml --image registry.example.com/docket:1.0.0
  docket kubernetes sidecar -f docket.yaml --secret siem-token=/etc/docket-siem --volume ephemeral
  docket kubernetes sidecar -f docket.yaml --engine manager --name engine -o patch > patch.yaml
  kubectl create configmap docket --from-file=docket.yaml
  kubectl patch deployment engine --patch-file patch.yaml`,
		Args: command.NoArgs,
	}
	var file string
	cmd.Flags().StringVarP(&file, "file", "f", "", "configuration file with paths as in the container")
	o.add(cmd.Flags())
	output := command.OutputFlag(cmd, "yaml", "json", "patch")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if file == "" {
			return errors.New("missing -f FILE: name the configuration")
		}
		if err := o.check(); err != nil {
			return err
		}
		cfg, err := load(kinds, file, &o)
		if err != nil {
			return err
		}
		return command.Failed(write(cmd.OutOrStdout(), cfg, &o, output.Value))
	}
	return cmd
}

// add adds the flags that o is set by.
func (o *options) add(flags *pflag.FlagSet) {
	flags.StringVar(&o.image, "image", "docket", "`NAME` of docket's image")
	flags.StringVar(&o.engine, "engine", "", "`NAME` of the engine's container, to mount the directory of the socket in")
	flags.StringVar(&o.name, "name", "engine", "`NAME` of the Deployment to patch")
	flags.StringVar(&o.configMap, "config-map", "docket", "`NAME` of the ConfigMap with the configuration as docket.yaml")
	flags.StringVar(&o.volume, "volume", emptyDirVolume, "volume of the queue: `KIND` is emptyDir, ephemeral, or claim=NAME")
	flags.Var(command.Duration{To: &o.shutdownDelay}, "shutdown-delay", "time that the engine takes to stop")
	flags.BoolVar(&o.plain, "plain", false, "write an ordinary container instead of a native sidecar")
	flags.BoolVar(&o.strict, "blocking-strict", false, "add a readiness probe, for the whole pod: the engine decides nothing without docket")
	flags.Int64Var(&o.fsGroup, "fs-group", docketUser, "`GROUP` that the engine and docket share files by")
	flags.StringToStringVar(&o.secrets, "secret", nil, "`NAME=DIRECTORY` at which docket reads a Secret; may be repeated")
	flags.StringToStringVar(&o.mounts, "mount", nil, "`VOLUME=DIRECTORY` at which docket mounts a volume of the pod; may be repeated")
}

// load returns the configuration in file, if a container with o can run with it.
func load(kinds exporter.Kinds, file string, o *options) (*exporter.Config, error) {
	text, err := command.ReadConfig(file)
	if err != nil {
		return nil, err
	}
	if tapcmd.IsTap(text) {
		return nil, command.Misconfigured("%s: kind Tap needs no volume: name the configuration of kind Exporter, for the docket beside tap", file)
	}
	cfg, err := command.ParseConfig(kinds, file, text)
	if err != nil {
		return nil, err
	}
	if problems := check(cfg, o); len(problems) > 0 {
		root, _ := config.Parse(text) // which was whole a moment ago
		return nil, &command.ConfigError{File: file, Problems: root.Locate(problems)}
	}
	return cfg, nil
}

// The kinds of volume.
const (
	emptyDirVolume  = "emptyDir"
	ephemeralVolume = "ephemeral"
	claimPrefix     = "claim="
)

// options are what the flags say.
type options struct {
	image, configMap string
	engine, name     string // its container and its Deployment
	volume           string // emptyDirVolume, ephemeralVolume or a claim
	claim            string // its name; empty: there is none
	shutdownDelay    time.Duration
	plain, strict    bool
	fsGroup          int64
	secrets, mounts  map[string]string // directories by names
}
