package kubernetescmd

import (
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

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

// socketMount is what the engine and docket share.
var socketMount = volumeMount{Name: socketVolume, MountPath: socketDir}

// usualRequest is what a docket with little to do has in memory. A request that is the limit
// would reserve what is needed only at its bounds.
const usualRequest = 64 << 20

// build returns what a pod needs for cfg.
func build(cfg *exporter.Config, o *options) pod {
	c := newContainer(cfg)
	c.Image = o.image
	if o.strict {
		c.ReadinessProbe = newProbe("ready", cfg.Queue.Directory, 5, 0)
	}
	for _, name := range slices.Sorted(maps.Keys(o.secrets)) {
		c.VolumeMounts = append(c.VolumeMounts, volumeMount{Name: secretVolumeName(name), MountPath: o.secrets[name], ReadOnly: true})
	}
	for _, name := range slices.Sorted(maps.Keys(o.mounts)) {
		c.VolumeMounts = append(c.VolumeMounts, volumeMount{Name: name, MountPath: o.mounts[name]})
	}
	p := pod{
		GracePeriod:     gracePeriod(cfg, o.shutdownDelay),
		SecurityContext: podSecurity{FSGroup: o.fsGroup},
		Volumes:         volumes(cfg, o),
	}
	if o.plain {
		if seconds := roundUp(int64(o.shutdownDelay), 1e9) / 1e9; seconds > 0 {
			c.Lifecycle = &lifecycle{PreStop: preStop{Sleep: sleep{Seconds: seconds}}}
		}
		p.Containers = []container{c}
	} else {
		c.RestartPolicy = "Always"
		p.InitContainers = []container{c}
	}
	if o.engine != "" && hasSocket(cfg) {
		p.Containers = append(p.Containers, container{Name: o.engine, VolumeMounts: []volumeMount{socketMount}})
	}
	return p
}

func newContainer(cfg *exporter.Config) container {
	directory, limit := cfg.Queue.Directory, memoryLimit(cfg)
	c := container{
		Name:          containerName,
		Args:          append([]string{"run"}, where(directory)...),
		Ports:         ports(cfg),
		StartupProbe:  newProbe("startup", directory, 1, 60),
		LivenessProbe: newProbe("live", directory, 10, 3),
		SecurityContext: &containerSecurity{
			RunAsUser: docketUser, RunAsGroup: docketUser, RunAsNonRoot: true, ReadOnlyRootFilesystem: true,
			Capabilities:   capabilities{Drop: []string{"ALL"}},
			SeccompProfile: seccompProfile{Type: "RuntimeDefault"},
		},
		Resources: &resources{
			Requests: quantities{CPU: "50m", Memory: quantity(min(usualRequest, limit))},
			Limits:   quantities{Memory: quantity(limit)},
		},
		VolumeMounts: []volumeMount{{Name: configVolume, MountPath: configDir, ReadOnly: true}},
	}
	if hasSocket(cfg) {
		c.VolumeMounts = append(c.VolumeMounts, socketMount)
	}
	c.VolumeMounts = append(c.VolumeMounts, volumeMount{Name: queueVolume, MountPath: volumeDir})
	return c
}

func newProbe(question, directory string, period, failures int) *probe {
	return &probe{
		Exec:          execAction{Command: append([]string{"docket", "probe", question}, where(directory)...)},
		PeriodSeconds: period, TimeoutSeconds: 5, FailureThreshold: failures,
	}
}

// where are the flags that say where docket is.
func where(directory string) []string {
	return []string{"-f", configDir + "/docket.yaml", "--queue", directory}
}

// ports are those that others in the cluster connect to.
func ports(cfg *exporter.Config) (list []port) {
	add := func(name, address string) {
		host, text, err := net.SplitHostPort(address)
		n, _ := strconv.Atoi(text)
		if err == nil && n > 0 && !config.Loopback(address) && host != "localhost" {
			list = append(list, port{Name: name, ContainerPort: n})
		}
	}
	for _, c := range cfg.Claims(config.Address) {
		add("", c.Value)
	}
	if cfg.Metrics != nil {
		add("docket-metrics", cfg.Metrics.Address)
	}
	return list
}

// hasSocket reports whether producers connect to a socket in the shared directory.
func hasSocket(cfg *exporter.Config) bool {
	return slices.ContainsFunc(cfg.Claims(config.Socket), func(c config.Claim) bool { return below(c.Value, socketDir) })
}

func volumes(cfg *exporter.Config, o *options) []volume {
	list := []volume{{Name: configVolume, ConfigMap: &configMapVolume{Name: o.configMap}}}
	if hasSocket(cfg) {
		list = append(list, volume{Name: socketVolume, EmptyDir: &emptyDir{}})
	}
	queue, size := volume{Name: queueVolume}, quantity(volumeBytes(cfg))
	switch {
	case o.claim != "":
		queue.PersistentVolumeClaim = &claimVolume{ClaimName: o.claim}
	case o.volume == ephemeralVolume:
		queue.Ephemeral = &ephemeral{claimTemplate{claimSpec{[]string{"ReadWriteOnce"}, claimResources{claimRequests{size}}}}}
	default:
		queue.EmptyDir = &emptyDir{SizeLimit: size}
	}
	list = append(list, queue)
	for _, name := range slices.Sorted(maps.Keys(o.secrets)) {
		list = append(list, volume{Name: secretVolumeName(name), Secret: &secretVolume{SecretName: name, DefaultMode: 0o440}})
	}
	return list
}

// secretVolumeName names the volume of a Secret. Names of volumes have no dots.
func secretVolumeName(secret string) string {
	return "docket-secret-" + strings.ReplaceAll(secret, ".", "-")
}

// quantity writes a size as Kubernetes does.
func quantity(bytes int64) string { return config.Size(bytes).String() }
