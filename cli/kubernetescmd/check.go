package kubernetescmd

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/sources/streamsource"
)

// Where the container has its volumes.
const (
	configDir = "/etc/docket"
	socketDir = "/run/docket"
	volumeDir = "/var/lib/docket"
)

// Names that the API server takes: labels of containers and volumes, and names of objects.
var (
	label  = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	object = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
)

// check reports flags that make a pod which the API server refuses, or which cannot start.
func (o *options) check() error {
	switch {
	case o.shutdownDelay < 0:
		return errors.New("--shutdown-delay must not be negative")
	case o.image == "":
		return errors.New("--image must not be empty")
	case o.fsGroup < 1 || o.fsGroup > 1<<31-1:
		return errors.New("--fs-group must be from 1 to 2147483647")
	case o.engine == containerName:
		return fmt.Errorf("--engine must not be %s: docket's own container has this name", containerName)
	}
	for _, name := range []struct{ flag, value string }{{"--config-map", o.configMap}, {"--name", o.name}, {"--volume claim=", o.claim}} {
		if name.value != "" && !object.MatchString(name.value) || len(name.value) > 253 {
			return fmt.Errorf("%s: %q is not a valid object name: use lower-case letters, digits, dots and dashes", name.flag, name.value)
		}
	}
	if o.engine != "" && !label.MatchString(o.engine) {
		return fmt.Errorf("--engine: %q is not a valid container name: use lower-case letters, digits and -", o.engine)
	}
	return o.checkMounts()
}

// checkMounts reports volumes of --secret and --mount that the pod cannot have beside its own.
func (o *options) checkMounts() error {
	volumes := map[string]string{configVolume: "the configuration", socketVolume: "the socket", queueVolume: "the queue"}
	taken := map[string]string{configDir: "the configuration", socketDir: "the socket", volumeDir: "the queue"}
	for _, list := range []struct {
		flag string
		dirs map[string]string
		name func(string) string
	}{
		{"--secret", o.secrets, secretVolumeName},
		{"--mount", o.mounts, func(volume string) string { return volume }},
	} {
		for _, given := range slices.Sorted(maps.Keys(list.dirs)) {
			flag, name, dir := list.flag+" "+given, list.name(given), path.Clean(list.dirs[given])
			if !label.MatchString(name) || list.flag == "--secret" && !object.MatchString(given) {
				return fmt.Errorf("%s: %q is not a valid volume name: use lower-case letters, digits and -, at most 63 characters", flag, name)
			}
			if other, is := volumes[name]; is {
				return fmt.Errorf("%s: %s already uses the volume %s", flag, other, name)
			}
			for _, at := range slices.Sorted(maps.Keys(taken)) {
				if below(dir, at) || below(at, dir) {
					return fmt.Errorf("%s: %s overlaps %s, the directory of %s: choose another directory, such as /etc/docket-siem", flag, dir, at, taken[at])
				}
			}
			volumes[name], taken[dir] = flag, flag
		}
	}
	return nil
}

// check reports what cannot work in a container with o, whose own root is read-only.
func check(cfg *exporter.Config, o *options) (p config.Problems) {
	if dir := cfg.Queue.Directory; !below(dir, volumeDir) {
		p.Addf("queue.directory", "%s is outside the volume at %s: use %s/queue", dir, volumeDir, volumeDir)
	}
	for _, c := range cfg.Claims(config.Directory) {
		if !below(c.Value, volumeDir) {
			p.Addf(c.Key, "%s is outside the volume at %s: use %s/export", c.Value, volumeDir, volumeDir)
		}
	}
	if o.claim == "" {
		for _, part := range cfg.Disk() {
			if part.Key != "" {
				p.Addf(part.Key, "is required on a volume of kind %s: without a bound the export fills the volume, and the pod is evicted or docket stops accepting records", o.volume)
			}
		}
	}
	return append(p, checkPaths(cfg, o)...)
}

// checkPaths reports sockets and files that are in no volume of the container.
func checkPaths(cfg *exporter.Config, o *options) (p config.Problems) {
	given := slices.Concat(slices.Collect(maps.Values(o.mounts)), slices.Collect(maps.Values(o.secrets)), []string{configDir, volumeDir})
	isIn := func(dirs []string, file string) bool {
		return slices.ContainsFunc(dirs, func(dir string) bool { return below(file, dir) })
	}
	for i, s := range cfg.Sources {
		unix, ok := s.Config.(*streamsource.UnixConfig)
		if !ok {
			continue
		}
		if mode, _ := config.ParseMode(unix.Mode); unix.Path != "" && mode&0o060 != 0o060 {
			p.Addf(fmt.Sprintf("sources[%d].unix.mode", i), "%s locks out an engine that runs as another user than docket: use \"0660\" at least, for the group that they share", unix.Mode)
		}
		if g := string(unix.Group); g != "" && g != strconv.FormatInt(o.fsGroup, 10) {
			p.Addf(fmt.Sprintf("sources[%d].unix.group", i), "docket is not a member of group %s, so nobody can connect: leave the key out, and the socket gets the group of the pod, %d", g, o.fsGroup)
		}
	}
	for _, c := range cfg.Claims(config.Socket) {
		if path.Dir(c.Value) != socketDir && !isIn(slices.Collect(maps.Values(o.mounts)), c.Value) {
			p.Addf(c.Key, "%s is not in %s, the directory that the engine shares: use %s/docket.sock", c.Value, socketDir, socketDir)
		}
	}
	for _, c := range cfg.Claims(config.Input) {
		if !isIn(given, c.Value) {
			p.Addf(c.Key, "%s is not in a volume of the container: mount the pod's volume with --mount VOLUME=%s", c.Value, path.Dir(c.Value))
		}
	}
	for _, f := range cfg.Files() {
		if !isIn(given, f.File) {
			p.Addf(f.Path, "%s is not in a volume of the container: mount its Secret with --secret NAME=%s", f.File, path.Dir(f.File))
		}
	}
	return p
}

// below reports whether name is dir or below it, in a container, whose paths begin with /.
func below(name, dir string) bool {
	name, dir = path.Clean(name), path.Clean(dir)
	return name == dir || strings.HasPrefix(name, strings.TrimSuffix(dir, "/")+"/")
}
