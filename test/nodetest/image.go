package nodetest

import (
	"archive/tar"
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/docket-export/docket/internal/repo"
)

// build makes the images of the repository and returns their archives.
func (n *Node) build() (archives []string, err error) {
	for _, i := range []struct{ name, module, pkg, program string }{
		{"pause", "test", "./nodetest/pause", filepath.Join(n.Dir, "pause")},
		{"docket", ".", "./cmd/docket", filepath.Join(n.Dir, "docket")},
		{"engine", "test", "./nodetest/engine", filepath.Join(n.Dir, "engine")},
		{"busybox", "", "", "/bin/busybox"},
	} {
		if i.pkg != "" {
			if err := n.goBuild(i.module, i.pkg); err != nil {
				return nil, err
			}
		}
		archive := filepath.Join(n.Dir, i.name+".tar")
		if err := WriteImage(archive, "docket.test/"+i.name+":dev", i.program); err != nil {
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

// inRepository runs a command in a folder of the repository.
func inRepository(cmd *exec.Cmd, folder string) error {
	root, err := repo.Root()
	if err != nil {
		return err
	}
	cmd.Dir = filepath.Join(root, folder)
	return run(cmd, cmd.String())
}

// Image makes an image as WriteImage does, and loads it.
func (n *Node) Image(t testing.TB, name string, programs ...string) {
	t.Helper()
	archive := filepath.Join(t.TempDir(), "image.tar")
	if err := WriteImage(archive, name, programs...); err != nil {
		t.Fatal(err)
	}
	n.Load(t, archive)
}

// user is the one of docket's image.
const user = 65532

// WriteImage writes an image of static programs, in the form of docker save: FILE, which is in the root of the image
// then, or FILE:/PATH. The first is the entry point. It has the directories and the user of docket's Dockerfile.
func WriteImage(archive, name string, programs ...string) error {
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	for _, dir := range []tar.Header{{Name: "etc/docket/", Mode: 0o755}, {Name: "run/docket/", Mode: 0o750, Uid: user, Gid: user}, {Name: "var/lib/docket/", Mode: 0o750, Uid: user, Gid: user}} {
		dir.Typeflag = tar.TypeDir
		if err := w.WriteHeader(&dir); err != nil {
			return err
		}
	}
	entry := ""
	for _, program := range programs {
		file, at, ok := strings.Cut(program, ":")
		if !ok {
			at = "/" + filepath.Base(file)
		}
		entry = cmp.Or(entry, at)
		content, err := os.ReadFile(file)
		if err == nil {
			err = add(w, at[1:], 0o755, content)
		}
		if err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	config := fmt.Appendf(nil, `{"os": "linux", "architecture": %q, "rootfs": {"type": "layers", "diff_ids": ["sha256:%x"]},
		"config": {"User": "%d:%[3]d", "Entrypoint": [%q], "Env": ["PATH=/"], "WorkingDir": "/"}}`, runtime.GOARCH, sha256.Sum256(layer.Bytes()), user, entry)
	out, err := os.Create(archive)
	if err != nil {
		return err
	}
	defer out.Close()
	image := tar.NewWriter(out)
	manifest := fmt.Appendf(nil, `[{"Config": "config.json", "RepoTags": [%q], "Layers": ["layer.tar"]}]`, name)
	err = errors.Join(add(image, "config.json", 0o644, config), add(image, "layer.tar", 0o644, layer.Bytes()), add(image, "manifest.json", 0o644, manifest))
	return errors.Join(err, image.Close(), out.Close())
}

func add(w *tar.Writer, name string, mode int64, content []byte) error {
	err := w.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: int64(len(content))})
	if err == nil {
		_, err = w.Write(content)
	}
	return err
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
