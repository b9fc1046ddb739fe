package kubernetescmd

import (
	"fmt"
	"maps"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/exporter"
)

// docketUser is the user of the image, and its group.
const docketUser = 65532

// containerName is the name of docket's container.
const containerName = "docket"

// Names of volumes.
const (
	configVolume = "docket-config"
	socketVolume = "docket-socket"
	queueVolume  = "docket-queue"
)

// usualRequest is what a docket with little to do has in memory. A request that is the limit
// would reserve what is needed only at its bounds.
const usualRequest = 64 << 20

// podText returns what a pod needs for cfg, in YAML. The libraries of Kubernetes would make the
// program several times as large.
func podText(cfg *exporter.Config, o *options) string {
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	say("terminationGracePeriodSeconds: %d", gracePeriod(cfg, o.shutdownDelay))
	say("securityContext:\n  fsGroup: %d", o.fsGroup)
	if o.plain {
		say("containers:")
	} else {
		say("initContainers:")
	}
	say("- name: %s\n  image: %s", containerName, scalar(o.image))
	if !o.plain {
		say("  restartPolicy: Always")
	}
	where := "-f, " + configDir + "/docket.yaml, --queue, " + scalar(cfg.Queue.Directory)
	say("  args: [run, %s]", where)
	if list := ports(cfg); len(list) > 0 {
		say("  ports:\n%s", strings.Join(list, "\n"))
	}
	probe := func(kind, question string, period int) {
		say("  %s:\n    exec:\n      command: [docket, probe, %s, %s]\n    periodSeconds: %d\n    timeoutSeconds: 5", kind, question, where, period)
	}
	probe("startupProbe", "startup", 1)
	say("    failureThreshold: 60")
	probe("livenessProbe", "live", 10)
	say("    failureThreshold: 3")
	if o.strict {
		probe("readinessProbe", "ready", 5)
	}
	if seconds := roundUp(int64(o.shutdownDelay), 1e9) / 1e9; o.plain && seconds > 0 {
		say("  lifecycle:\n    preStop:\n      sleep:\n        seconds: %d", seconds)
	}
	say(`  securityContext:
    runAsUser: %[1]d
    runAsGroup: %[1]d
    runAsNonRoot: true
    readOnlyRootFilesystem: true
    allowPrivilegeEscalation: false
    capabilities:
      drop: [ALL]
    seccompProfile:
      type: RuntimeDefault
  resources:
    requests:
      cpu: 50m
      memory: %[2]s
    limits:
      memory: %[3]s`, docketUser, quantity(min(usualRequest, memoryLimit(cfg))), quantity(memoryLimit(cfg)))

	say("  volumeMounts:\n  - name: %s\n    mountPath: %s\n    readOnly: true", configVolume, configDir)
	socketMount := fmt.Sprintf("  - name: %s\n    mountPath: %s", socketVolume, socketDir)
	if hasSocket(cfg) {
		say("%s", socketMount)
	}
	say("  - name: %s\n    mountPath: %s", queueVolume, volumeDir)
	for _, name := range slices.Sorted(maps.Keys(o.secrets)) {
		say("  - name: %s\n    mountPath: %s\n    readOnly: true", secretVolumeName(name), scalar(o.secrets[name]))
	}
	for _, name := range slices.Sorted(maps.Keys(o.mounts)) {
		say("  - name: %s\n    mountPath: %s", scalar(name), scalar(o.mounts[name]))
	}
	if o.engine != "" && hasSocket(cfg) {
		if !o.plain {
			say("containers:")
		}
		say("- name: %s\n  volumeMounts:\n%s", scalar(o.engine), socketMount)
	}

	say("volumes:\n- name: %s\n  configMap:\n    name: %s", configVolume, scalar(o.configMap))
	if hasSocket(cfg) {
		say("- name: %s\n  emptyDir: {}", socketVolume)
	}
	say("- name: %s", queueVolume)
	size := quantity(volumeBytes(cfg))
	switch {
	case o.claim != "":
		say("  persistentVolumeClaim:\n    claimName: %s", scalar(o.claim))
	case o.volume == ephemeralVolume:
		say(`  ephemeral:
    volumeClaimTemplate:
      spec:
        accessModes: [ReadWriteOnce]
        resources:
          requests:
            storage: %s`, size)
	default:
		say("  emptyDir:\n    sizeLimit: %s", size)
	}
	for _, name := range slices.Sorted(maps.Keys(o.secrets)) {
		say("- name: %s\n  secret:\n    secretName: %s\n    defaultMode: %d", secretVolumeName(name), scalar(name), 0o440)
	}
	return b.String()
}

// patchText returns a strategic merge patch of a Deployment whose pods get pod. One pod has a
// claim at a time.
func patchText(pod string, o *options) string {
	head := "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: " + scalar(o.name) + "\nspec:\n"
	if o.claim != "" {
		head += "  replicas: 1\n  strategy:\n    rollingUpdate:\n      maxSurge: 0\n      maxUnavailable: 1\n"
	}
	head += "  template:\n    spec:\n"
	for line := range strings.Lines(pod) {
		head += "      " + line
	}
	return head
}

// ports are those that others in the cluster connect to.
func ports(cfg *exporter.Config) (list []string) {
	add := func(head, address string) {
		_, text, err := net.SplitHostPort(address)
		n, _ := strconv.Atoi(text)
		if err == nil && n > 0 && !config.Loopback(address) {
			list = append(list, fmt.Sprintf("%scontainerPort: %d", head, n))
		}
	}
	for _, c := range cfg.Claims(config.Address) {
		add("  - ", c.Value)
	}
	if cfg.Metrics != nil {
		add("  - name: docket-metrics\n    ", cfg.Metrics.Address)
	}
	return list
}

// hasSocket reports whether producers connect to a socket in the shared directory.
func hasSocket(cfg *exporter.Config) bool {
	return slices.ContainsFunc(cfg.Claims(config.Socket), func(c config.Claim) bool { return below(c.Value, socketDir) })
}

// secretVolumeName names the volume of a Secret. Names of volumes have no dots.
func secretVolumeName(secret string) string {
	return scalar("docket-secret-" + strings.ReplaceAll(secret, ".", "-"))
}

// quantity writes a size as Kubernetes does.
func quantity(bytes int64) string { return config.Size(bytes).String() }

var plainText = regexp.MustCompile(`^[A-Za-z/][A-Za-z0-9._/:@-]*$`)

// scalar writes a text in YAML, in quotes where it would be taken for something else.
func scalar(text string) string {
	var v any
	if plainText.MatchString(text) && yaml.Unmarshal([]byte(text), &v) == nil && v == any(text) {
		return text
	}
	return strconv.Quote(text)
}
