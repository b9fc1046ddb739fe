// Package hostcheck reports what the host lacks for a configuration, and what it
// exposes to other users.
package hostcheck

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/exporter"
)

// Warnings lists what is valid in cfg but may do harm: on the disk as it is now, and in
// the configuration itself. It changes nothing.
func Warnings(cfg *exporter.Config) []string {
	all := queueWarnings(cfg.Queue)
	for _, w := range cfg.Warnings() {
		all = append(all, w.String())
	}
	for _, d := range directoriesOf(cfg) {
		if w := d.warning(); w != "" {
			all = append(all, w)
		}
	}
	all = append(all, cfg.LimitWarnings()...)
	return append(all, SecretWarnings(cfg.Files())...)
}

// isEmptyDir reports whether dir is an emptyDir of a pod with a fsGroup: a volume with the
// mode that the kubelet gives it and nobody can change for good. Containers that mount it
// alone see it.
func isEmptyDir(dir string) bool {
	var at, above unix.Stat_t
	return unix.Stat(dir, &at) == nil && unix.Stat(filepath.Dir(dir), &above) == nil && isVolumeOfAll(at, above)
}

func isVolumeOfAll(at, above unix.Stat_t) bool {
	return at.Dev != above.Dev && at.Mode&0o7777 == unix.S_ISGID|0o777
}

// Bits of a mode.
const (
	othersRead       = 0o004
	groupOthersWrite = 0o022
)

// directory is one in which names lie that others must not replace.
type directory struct {
	key  string // where the configuration names it
	path string
	risk string // what those can do who may write there
}

// directoriesOf lists the directories that docket keeps its files and sockets in.
func directoriesOf(cfg *exporter.Config) []directory {
	all := []directory{{"queue.directory", cfg.Queue.Directory, "remove or replace files of the queue"}}
	for _, c := range cfg.Claims(config.Directory) {
		all = append(all, directory{c.Key, c.Value, "remove or replace exported files"})
	}
	for _, c := range cfg.Claims(config.Socket) {
		if isEmptyDir(filepath.Dir(c.Value)) {
			continue // for the engine that shares it
		}
		all = append(all, directory{c.Key, filepath.Dir(c.Value), "replace docket's socket"})
	}
	return all
}

// warning is "" for a directory that its owner alone may write to, and for one that is not
// there: docket makes it so.
func (d directory) warning() string {
	info, err := os.Stat(d.path)
	if err != nil || info.Mode()&groupOthersWrite == 0 {
		return ""
	}
	return fmt.Sprintf("%s: %s has mode %s, so %s may %s: chmod go-w %s, or use a subdirectory that only docket's user may write to",
		d.key, d.path, modeText(info), writers(info), d.risk, d.path)
}

func writers(info fs.FileInfo) string {
	if info.Mode()&0o002 != 0 {
		return "everybody"
	}
	return "its group"
}

// modeText is a mode as chmod takes it, such as 1777.
func modeText(info fs.FileInfo) string {
	bits := info.Mode().Perm()
	for flag, bit := range map[fs.FileMode]fs.FileMode{fs.ModeSticky: 0o1000, fs.ModeSetgid: 0o2000, fs.ModeSetuid: 0o4000} {
		if info.Mode()&flag != 0 {
			bits |= bit
		}
	}
	return fmt.Sprintf("%04o", uint32(bits))
}

// SecretWarnings returns one line for all secret files that others may write, and one for
// all that others may read. A volume has the same mode for each file in it.
func SecretWarnings(files []config.FileUse) (lines []string) {
	var writable, readable, paths, readablePaths []string
	for _, f := range files {
		info, err := os.Stat(f.File)
		if !f.Secret || err != nil {
			continue
		}
		named := fmt.Sprintf("%s: %s (mode %s)", f.Path, f.File, modeText(info))
		switch {
		case info.Mode()&groupOthersWrite != 0:
			writable, paths = append(writable, named), append(paths, f.File)
		case info.Mode()&othersRead != 0 && !inKubernetesVolume(f.File):
			readable, readablePaths = append(readable, named), append(readablePaths, f.File)
		}
	}
	if len(writable) > 0 {
		lines = append(lines, fmt.Sprintf("%s: group or others may replace the secret: chmod go-w %s", strings.Join(writable, ", "), strings.Join(paths, " ")))
	}
	if len(readable) > 0 {
		lines = append(lines, fmt.Sprintf("%s: everybody on this machine may read the secret: chmod o-r %s", strings.Join(readable, ", "), strings.Join(readablePaths, " ")))
	}
	return lines
}

// inKubernetesVolume reports whether a file lies in a volume of a Secret, whose files are
// links to ..data and have mode 0644 by default: nobody but the pod's containers sees them.
func inKubernetesVolume(file string) bool {
	target, err := os.Readlink(file)
	return err == nil && strings.HasPrefix(target, "..data"+string(filepath.Separator))
}
