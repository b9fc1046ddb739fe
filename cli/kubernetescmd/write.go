package kubernetescmd

import (
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
	text := podText(cfg, o)
	switch form {
	case "json":
		var pod any
		if err := yaml.Unmarshal([]byte(text), &pod); err != nil {
			return err
		}
		return terminal.WriteJSON(w, pod)
	case "patch":
		text = patchText(text, o)
	}
	_, err := io.WriteString(w, head(cfg, o)+text)
	return err
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
