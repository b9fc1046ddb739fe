package nodetest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/docket-export/docket/internal/repo"
)

// build makes the images of the repository with the tool that makes the released ones, and
// returns their archives.
func (n *Node) build() (archives []string, err error) {
	if err := n.goBuild("release", "./image"); err != nil {
		return nil, err
	}
	if err := n.goBuild(".", "./cmd/docket"); err != nil {
		return nil, err
	}
	for _, i := range []struct{ name, pkg, program string }{
		{name: "pause", pkg: "./nodetest/pause", program: filepath.Join(n.Dir, "pause")},
		{name: "docket"},
		{name: "engine", pkg: "./nodetest/engine", program: filepath.Join(n.Dir, "engine")},
		{name: "busybox", program: "/bin/busybox"},
	} {
		if i.pkg != "" {
			if err := n.goBuild("test", i.pkg); err != nil {
				return nil, err
			}
		}
		archive := filepath.Join(n.Dir, i.name+".tar")
		var programs []string // none: docket, which the tool builds
		if i.program != "" {
			programs = []string{i.program}
		}
		if err := n.image(archive, "docket.test/"+i.name+":dev", programs...); err != nil {
			return nil, err
		}
		archives = append(archives, archive)
	}
	return archives, nil
}

// goBuild builds a package of a module of the repository into the node's directory.
func (n *Node) goBuild(module, pkg string) error {
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", n.Dir, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	return inRepository(cmd, module)
}

// image writes an image of programs to archive.
func (n *Node) image(archive, name string, programs ...string) error {
	return inRepository(exec.Command(filepath.Join(n.Dir, "image"), append([]string{"-out", archive, "-name", name}, programs...)...), "release")
}

// inRepository runs a command in a folder of the repository.
func inRepository(cmd *exec.Cmd, folder string) error {
	root, err := repo.Root()
	if err != nil {
		return err
	}
	cmd.Dir = filepath.Join(root, folder)
	return run(cmd, cmd.String())
}

// Image makes an image of static programs, and loads it: FILE, which is in the root of the image
// then, or FILE:/PATH. The first is the entry point. The user is 65532.
func (n *Node) Image(t testing.TB, name string, programs ...string) {
	t.Helper()
	archive := filepath.Join(t.TempDir(), "image.tar")
	if err := n.image(archive, name, programs...); err != nil {
		t.Fatal(err)
	}
	n.Load(t, archive)
}

// Load loads the images of an archive, in a form that ctr images import takes.
func (n *Node) Load(t testing.TB, archive string) {
	t.Helper()
	if err := n.load(archive); err != nil {
		t.Fatal(err)
	}
}

func (n *Node) load(archive string) error {
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer f.Close()
	cmd := n.Inside("ctr", "-n", "k8s.io", "images", "import", "--snapshotter", "overlayfs", "-")
	cmd.Stdin = f
	return run(cmd, "load "+archive)
}
