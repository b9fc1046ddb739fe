package kubernetescmd

import (
	"fmt"
	"maps"
	"path"
	"slices"
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

// check reports what cannot work in a container with o, whose own root is read-only.
func check(cfg *exporter.Config, o *options) (p config.Problems) {
	if dir := cfg.Queue.Directory; !below(dir, volumeDir) {
		p.Addf("queue.directory", "%s is outside of the volume at %s: make it %s/queue", dir, volumeDir, volumeDir)
	}
	for _, c := range cfg.Claims(config.Directory) {
		if !below(c.Value, volumeDir) {
			p.Addf(c.Key, "%s is outside of the volume at %s: make it %s/export", c.Value, volumeDir, volumeDir)
		}
	}
	if o.claim == "" {
		for _, part := range cfg.Disk() {
			if part.Key != "" {
				p.Addf(part.Key, "is required on a volume of kind %s, which is sized by it: without a bound the export fills the volume, and the pod is evicted, or docket stops taking records", o.volume)
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
			p.Addf(fmt.Sprintf("sources[%d].unix.mode", i), "%s keeps out an engine that is another user than docket: the least is \"0660\", for the group that they share", unix.Mode)
		}
	}
	for _, c := range cfg.Claims(config.Socket) {
		if path.Dir(c.Value) != socketDir && !isIn(slices.Collect(maps.Values(o.mounts)), c.Value) {
			p.Addf(c.Key, "%s is not in %s, the directory that the engine shares: make it %s/docket.sock", c.Value, socketDir, socketDir)
		}
	}
	for _, c := range cfg.Claims(config.Inherited) {
		p.Addf(c.Key, "no container inherits a socket: give a path in %s, or an address", socketDir)
	}
	for _, c := range cfg.Claims(config.Input) {
		if !isIn(given, c.Value) {
			p.Addf(c.Key, "%s is in no volume of the container: name that of the pod with --mount VOLUME=%s", c.Value, path.Dir(c.Value))
		}
	}
	for _, f := range cfg.Files() {
		if !isIn(given, f.File) {
			p.Addf(f.Path, "%s is in no volume of the container: name its Secret with --secret NAME=%s", f.File, path.Dir(f.File))
		}
	}
	return p
}

// below reports whether name is dir or below it, in a container, whose paths begin with /.
func below(name, dir string) bool {
	name, dir = path.Clean(name), path.Clean(dir)
	return name == dir || strings.HasPrefix(name, strings.TrimSuffix(dir, "/")+"/")
}
