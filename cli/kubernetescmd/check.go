package kubernetescmd

import (
	"errors"
	"fmt"
	"maps"
	"path"
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

// check reports flags that make a pod in which docket cannot start. What else is wrong with names
// and mounts, the API server says.
func (o *options) check() error {
	switch {
	case o.shutdownDelay < 0:
		return errors.New("--shutdown-delay must not be negative")
	case o.image == "":
		return errors.New("--image must not be empty")
	case o.engine == containerName:
		return fmt.Errorf("--engine must not be %s: docket's own container has this name", containerName)
	}
	if o.claim, _ = strings.CutPrefix(o.volume, claimPrefix); o.claim == o.volume {
		o.claim = ""
	}
	if o.claim == "" && o.volume != emptyDirVolume && o.volume != ephemeralVolume {
		return fmt.Errorf("--volume must be one of %s, %s, %sNAME", emptyDirVolume, ephemeralVolume, claimPrefix)
	}
	for _, dir := range slices.Concat(slices.Collect(maps.Values(o.secrets)), slices.Collect(maps.Values(o.mounts))) {
		if !path.IsAbs(dir) {
			return fmt.Errorf("--secret and --mount must be NAME=DIRECTORY, such as siem-token=/etc/docket-siem, not %q", dir)
		}
		for _, own := range []string{configDir, socketDir, volumeDir} {
			if below(dir, own) || below(own, dir) {
				return fmt.Errorf("%s overlaps %s, a directory of docket's own: choose another directory, such as /etc/docket-siem", dir, own)
			}
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
