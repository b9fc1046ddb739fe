package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/docket-export/docket/bench/process"
	"github.com/docket-export/docket/bench/trial"
)

// installation is where a peer's program lies.
type installation struct {
	root    string // directory with usr/ below it, or that of docket's binary
	version string
}

// path returns the first file that the pattern names below the root, such as the
// directory of modules, whose name has the architecture or the version in it. It
// returns the pattern where there is none, for the program to complain about.
func (in installation) path(pattern string) string {
	pattern = filepath.Join(in.root, pattern)
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) == 0 {
		return pattern
	}
	return found[0]
}

// libraries makes the dynamic linker look at the unpacked libraries first.
func (in installation) libraries() []string {
	var dirs []string
	for _, pattern := range []string{"usr/lib/*-linux-gnu*", "lib/*-linux-gnu*", "usr/lib/syslog-ng"} {
		found, err := filepath.Glob(filepath.Join(in.root, pattern))
		if err == nil { // these patterns are whole
			dirs = append(dirs, found...)
		}
	}
	return []string{"LD_LIBRARY_PATH=" + strings.Join(dirs, ":")}
}

// build returns the program of p, which is built from its Go module below cache unless
// that was done before, from the same files.
func build(t *trial.T, cache string, p peer) installation {
	dir := filepath.Join(cache, p.Name)
	sources := map[string][]byte{"go.mod": trial.Must(files.ReadFile("modules/" + p.Module))}
	if p.Main != "" {
		sources["main.go"] = trial.Must(files.ReadFile("modules/" + p.Main))
	}
	recipe := fmt.Appendf(nil, "%s %s", p.Build, sources)
	const recipeFile = "recipe"
	if built, err := os.ReadFile(filepath.Join(dir, recipeFile)); err == nil && bytes.Equal(built, recipe) {
		return installation{root: dir, version: p.Version}
	}
	t.Part(p.Name+" (leave it out with -only)", 0, func(t *trial.T) {
		trial.Check(os.MkdirAll(cache, 0o755))
		work := trial.Must(os.MkdirTemp(cache, p.Name+"-")) // renamed once it is whole
		t.Cleanup(func() error { return os.RemoveAll(work) })
		sources[recipeFile] = recipe
		for name, text := range sources {
			trial.Check(os.WriteFile(filepath.Join(work, name), text, 0o644))
		}
		fmt.Fprintf(os.Stderr, "peers: building %s %s, which takes minutes\n", p.Name, p.Version)
		process.Output(t, work, "env", append([]string{"GOFLAGS=-buildvcs=false"}, p.Build...)...)
		trial.Check(os.RemoveAll(dir))
		trial.Check(os.Rename(work, dir))
	})
	return installation{root: dir, version: p.Version}
}

// unpack returns the program of p, which it downloads as Debian's packages and unpacks
// below cache unless that was done before. Nothing is installed and no root is needed.
func unpack(t *trial.T, cache string, p peer) (in installation) {
	dir := filepath.Join(cache, p.Name)
	if in, err := unpacked(dir, p); err == nil {
		return in
	}
	t.Part(p.Name+" (leave it out with -only)", 0, func(t *trial.T) {
		for _, tool := range []string{"apt-get", "dpkg"} {
			if _, err := exec.LookPath(tool); err != nil {
				trial.Check(fmt.Errorf("%w: its packages come from Debian or a system made of it", err))
			}
		}
		trial.Check(os.MkdirAll(cache, 0o755))
		work := trial.Must(os.MkdirTemp(cache, p.Name+"-")) // renamed once it is whole
		t.Cleanup(func() error { return os.RemoveAll(work) })
		fmt.Fprintf(os.Stderr, "peers: downloading %s\n", strings.Join(p.Packages, " "))
		t.Part(`run "apt-get update" as root where packages are not found`, 0, func(t *trial.T) {
			process.Output(t, work, "sh", append([]string{"-c", fetch, "sh"}, p.Packages...)...)
		})
		trial.Check(os.RemoveAll(dir))
		trial.Check(os.Rename(work, dir))
		in = trial.Must(unpacked(dir, p))
	})
	return in
}

// fetch downloads the packages that are its arguments, and those they depend on that
// this system does not have, and unpacks them.
//
//go:embed fetch.sh
var fetch string

// unpacked returns what lies in dir, where all packages of p have to be. The version
// is that of the first, which stands in the name of its file.
func unpacked(dir string, p peer) (installation, error) {
	in := installation{root: dir}
	for _, name := range p.Packages {
		files, err := filepath.Glob(filepath.Join(dir, name+"_*.deb"))
		if err != nil {
			return in, err
		}
		if len(files) == 0 {
			return in, fmt.Errorf("%s has no %s", dir, name)
		}
		if in.version == "" {
			in.version, err = url.PathUnescape(strings.Split(filepath.Base(files[0]), "_")[1])
			if err != nil {
				return in, err
			}
		}
	}
	return in, nil
}
