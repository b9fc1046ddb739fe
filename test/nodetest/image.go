package nodetest

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/docket-export/docket/test/internal/repo"
)

// build builds the programs of the repository that pods of tests run, and returns archives of
// their images.
func (n *Node) build(t testing.TB) (images []string) {
	t.Helper()
	root, err := repo.Root()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	program := func(name, module, pkg string) string {
		path := filepath.Join(dir, name)
		cmd := exec.Command("go", "build", "-buildvcs=false", "-ldflags=-s -w", "-o", path, pkg)
		cmd.Dir = filepath.Join(root, module)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("build %s: %v\n%s", name, err, out)
		}
		return path
	}
	for _, i := range []struct{ name, program string }{
		{"pause", program("pause", "test", "./nodetest/pause")},
		{"docket", program("docket", ".", "./cmd/docket")},
		{"engine", program("engine", "test", "./nodetest/engine")},
		{"busybox", "/bin/busybox"},
	} {
		archive := filepath.Join(dir, i.name+".tar")
		if err := writeImage(archive, "docket.test/"+i.name+":dev", i.program); err != nil {
			t.Fatal(err)
		}
		images = append(images, archive)
	}
	return images
}

// Image makes an image of static programs, and loads it. Each is at its own name in the root
// of the image; the first is the entry point. The user is 65532.
func (n *Node) Image(t testing.TB, name string, programs ...string) {
	t.Helper()
	archive := filepath.Join(t.TempDir(), "image.tar")
	if err := writeImage(archive, name, programs...); err != nil {
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

// writeImage writes an image as an archive of one layer.
func writeImage(path, name string, programs ...string) error {
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	for _, program := range programs {
		text, err := os.ReadFile(program)
		if err != nil {
			return err
		}
		if err := add(w, filepath.Base(program), 0o755, text); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{"User": "65532:65532", "Entrypoint": []string{"/" + filepath.Base(programs[0])}, "Env": []string{"PATH=/"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer.Bytes()))}},
	})
	if err != nil {
		return err
	}
	manifest, err := json.Marshal([]any{map[string]any{"Config": "config.json", "RepoTags": []string{name}, "Layers": []string{"layer.tar"}}})
	if err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	w = tar.NewWriter(f)
	for name, text := range map[string][]byte{"manifest.json": manifest, "config.json": config, "layer.tar": layer.Bytes()} {
		if err := add(w, name, 0o644, text); err != nil {
			return err
		}
	}
	return w.Close()
}

func add(w *tar.Writer, name string, mode int64, text []byte) error {
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: int64(len(text))}); err != nil {
		return err
	}
	_, err := io.Copy(w, bytes.NewReader(text))
	return err
}
