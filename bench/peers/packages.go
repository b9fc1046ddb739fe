package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/docket-export/docket/bench/process"
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

// unpack returns the program of p, which it downloads as Debian's packages and unpacks
// below cache unless that was done before. Nothing is installed and no root is needed.
func unpack(ctx context.Context, cache string, p peer) (installation, error) {
	dir := filepath.Join(cache, p.Name)
	if in, err := unpacked(dir, p); err == nil {
		return in, nil
	}
	for _, tool := range []string{"apt-get", "dpkg"} {
		if _, err := exec.LookPath(tool); err != nil {
			return installation{}, fmt.Errorf("%s: %w: its packages come from Debian or a system made of it; leave it out with -only", p.Name, err)
		}
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return installation{}, err
	}
	work, err := os.MkdirTemp(cache, p.Name+"-") // renamed once it is whole
	if err != nil {
		return installation{}, err
	}
	defer func() { _ = os.RemoveAll(work) }() // it is not there any more when all went well
	if err := download(ctx, work, p); err != nil {
		return installation{}, fmt.Errorf("%s: %w (run \"apt-get update\" as root where packages are not found, or leave it out with -only)", p.Name, err)
	}
	if err := os.RemoveAll(dir); err != nil {
		return installation{}, err
	}
	if err := os.Rename(work, dir); err != nil {
		return installation{}, err
	}
	return unpacked(dir, p)
}

// download fetches the packages of p, and those they depend on that this system does
// not have, and unpacks them in dir.
func download(ctx context.Context, dir string, p peer) error {
	packages, err := missing(ctx, p.Packages)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "peers: downloading %s\n", strings.Join(packages, " "))
	if _, err := process.Output(ctx, dir, "apt-get", append([]string{"download"}, packages...)...); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	if err != nil {
		return err
	}
	for _, file := range files {
		if _, err := process.Output(ctx, dir, "dpkg", "-x", file, dir); err != nil {
			return err
		}
	}
	return nil
}

// missing asks apt-get what it would install for these packages, which are always
// among the answer: one that is installed may lack what the run needs beside it.
func missing(ctx context.Context, packages []string) ([]string, error) {
	args := []string{"install", "--simulate", "--yes", "--no-install-recommends"}
	plan, err := process.Output(ctx, "", "apt-get", append(args, packages...)...)
	if err != nil {
		return nil, err
	}
	all := packages[:len(packages):len(packages)]
	wanted := " " + strings.Join(packages, " ") + " "
	for line := range strings.Lines(string(plan)) {
		words := strings.Fields(line)
		if len(words) > 1 && words[0] == "Inst" && !strings.Contains(wanted, " "+words[1]+" ") {
			all = append(all, words[1])
		}
	}
	return all, nil
}

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
