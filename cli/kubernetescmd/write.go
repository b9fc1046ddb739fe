package kubernetescmd

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/docket-export/docket/cli/internal/terminal"
	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/internal/memlimit"
)

// write writes what a pod needs for cfg, in the form that -o names.
func write(w io.Writer, cfg *exporter.Config, o *options, form string) error {
	p := build(cfg, o)
	switch form {
	case "json":
		return terminal.WriteJSON(w, p)
	case "patch":
		return writeYAML(w, head(cfg, o), patchOf(p, o))
	}
	return writeYAML(w, head(cfg, o), p)
}

// patchOf is a patch of a Deployment whose pods get p.
func patchOf(p pod, o *options) deployment {
	d := deployment{APIVersion: "apps/v1", Kind: "Deployment", Metadata: metadata{o.name}, Spec: deploymentSpec{Template: podTemplate{p}}}
	if o.claim != "" { // which one pod has at a time
		one := 1
		d.Spec.Replicas, d.Spec.Strategy = &one, &strategy{rollingUpdate{MaxSurge: 0, MaxUnavailable: 1}}
	}
	return d
}

// outlives says of each kind of volume what a queue on it survives.
func outlives(o *options) string {
	switch {
	case o.claim != "":
		return "the claim " + o.claim + ": survives the deletion of the pod and, where the storage class has network storage, the loss of the node"
	case o.volume == ephemeralVolume:
		return "a generic ephemeral volume: survives a crash of the container and its OOM kill, not the deletion or eviction of the pod, nor the loss of the node"
	}
	return "an emptyDir: survives a crash of the container and its OOM kill, not the deletion or eviction of the pod, nor the loss of the node"
}

// head says how the sizes follow from the configuration, and what is left to do.
func head(cfg *exporter.Config, o *options) string {
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, "# "+format+"\n", args...) }
	var parts []string
	for _, part := range cfg.Disk() {
		if part.Key == "" {
			parts = append(parts, part.Name+" "+quantity(part.Bytes))
		} else {
			parts = append(parts, part.Name+" without a bound, as "+part.Key+" is not set")
		}
	}
	say("The queue is on %s.", outlives(o))
	say("Volume: %s at least (%s).", quantity(volumeBytes(cfg)), strings.Join(parts, ", "))
	say("Memory: docket stays below %s (docket check).", memlimit.Mebibytes(exporter.MemoryCeiling(cfg.Memory())))
	say("Grace period: %s for the engine to stop, shutdown.drainTimeout %s, and %s.", config.Duration(o.shutdownDelay), cfg.Shutdown.DrainTimeout, config.Duration(closingTime))
	if hasSocket(cfg) && o.engine == "" {
		say("The engine needs: volumeMounts: [{name: %s, mountPath: %s}]", socketVolume, socketDir)
	}
	if o.claim != "" {
		say("One pod has the claim at a time: one replica, with maxSurge: 0.")
	}
	if o.plain {
		say("The engine may start before docket.")
	}
	return b.String()
}

// writeYAML goes by the tags for JSON, which is YAML.
func writeYAML(w io.Writer, head string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	var n yaml.Node
	if err := yaml.Unmarshal(text, &n); err != nil {
		return err
	}
	restyle(&n)
	if _, err := io.WriteString(w, head); err != nil {
		return err
	}
	e := yaml.NewEncoder(w)
	e.SetIndent(2)
	e.CompactSeqIndent()
	if err := e.Encode(&n); err != nil {
		return err
	}
	return e.Close()
}

// restyle writes n in lines, and lists of texts in braces.
func restyle(n *yaml.Node) {
	n.Style = 0
	scalars := n.Kind == yaml.SequenceNode
	for _, c := range n.Content {
		restyle(c)
		scalars = scalars && c.Kind == yaml.ScalarNode
	}
	if scalars {
		n.Style = yaml.FlowStyle
	}
}
