package oci

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

const tag = "docket.test/docket:dev"

// program builds one that does nothing, with the flags given.
func program(t *testing.T, platform string, flags ...string) string {
	t.Helper()
	goos, goarch, _ := strings.Cut(platform, "/")
	dir := t.TempDir()
	source, out := filepath.Join(dir, "main.go"), filepath.Join(dir, "program")
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", append(append([]string{"build", "-trimpath"}, flags...), "-o", out, source)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+goarch)
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	return out
}

func write(t *testing.T, images ...Image) (file string, digest v1.Hash) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "image.tar")
	digest, err := WriteArchive(file, tag, images...)
	if err != nil {
		t.Fatal(err)
	}
	return file, digest
}

// unpack returns the image layout that the archive is.
func unpack(t *testing.T, file string) v1.ImageIndex {
	t.Helper()
	dir := t.TempDir()
	for name, content := range read(t, file) {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	return index
}

func read(t *testing.T, file string) map[string][]byte {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return entries(t, f)
}

func entries(t *testing.T, archive io.Reader) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	r := tar.NewReader(archive)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if !h.ModTime.Equal(time.Unix(0, 0)) {
			t.Errorf("%s: got the time %s, which another build has not", h.Name, h.ModTime)
		}
		if all[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

// Two builds of the same programs, in other places and at other times, are one file.
func TestReproducible(t *testing.T) {
	t.Parallel()
	first, one := write(t, Image{Platform: "linux/amd64", Programs: []Program{{program(t, "linux/amd64"), "/docket"}}})
	second, two := write(t, Image{Platform: "linux/amd64", Programs: []Program{{program(t, "linux/amd64"), "/docket"}}})
	if one != two {
		t.Errorf("got digests %s and %s, want one", one, two)
	}
	a, err := os.ReadFile(first)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(second)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a, b) {
		t.Error("the archives differ")
	}
}

func TestImage(t *testing.T) {
	t.Parallel()
	file, digest := write(t, Image{Platform: "linux/amd64", Programs: []Program{{program(t, "linux/amd64"), "/docket"}}})
	index := unpack(t, file)
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	entry := manifest.Manifests[0]
	if entry.Digest != digest {
		t.Errorf("got %s in the archive, want the digest that was returned, %s", entry.Digest, digest)
	}
	if got := entry.Annotations["io.containerd.image.name"]; got != tag {
		t.Errorf("got name %q for containerd, want %q", got, tag)
	}
	// As docker load reads it.
	img, err := tarball.ImageFromPath(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := config.Config.User, "65532:65532"; got != want {
		t.Errorf("got user %s, want %s", got, want)
	}
	if got := config.Config.Entrypoint; len(got) != 1 || got[0] != "/docket" {
		t.Errorf("got entry point %q, want /docket", got)
	}
	content := mutate.Extract(img)
	defer content.Close()
	files := entries(t, content)
	for _, want := range []string{"docket", "run/docket", "var/lib/docket", "etc/docket"} {
		if _, ok := files[want]; !ok {
			t.Errorf("no %s in the image", want)
		}
	}
	if pool := x509.NewCertPool(); !pool.AppendCertsFromPEM(files["etc/ssl/certs/ca-certificates.crt"]) {
		t.Error("no certificate of an authority in the image")
	}
}

func TestPlatforms(t *testing.T) {
	t.Parallel()
	file, digest := write(t,
		Image{Platform: "linux/amd64", Programs: []Program{{program(t, "linux/amd64"), "/docket"}}},
		Image{Platform: "linux/arm64", Programs: []Program{{program(t, "linux/arm64"), "/docket"}}})
	outer := unpack(t, file)
	if err := validate.Index(outer); err != nil {
		t.Error(err)
	}
	index, err := outer.ImageIndex(digest)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range manifest.Manifests {
		got = append(got, m.Platform.String())
	}
	if got, want := strings.Join(got, " "), "linux/amd64 linux/arm64"; got != want {
		t.Errorf("got platforms %s, want %s", got, want)
	}
}

// A registry has the image that the archive holds, for one platform and for two.
func TestPush(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	at := strings.TrimPrefix(server.URL, "http://") + "/docket:dev"
	amd64 := Image{Platform: "linux/amd64", Programs: []Program{{program(t, "linux/amd64"), "/docket"}}}
	arm64 := Image{Platform: "linux/arm64", Programs: []Program{{program(t, "linux/arm64"), "/docket"}}}
	for _, images := range [][]Image{{amd64}, {amd64, arm64}} {
		_, want := write(t, images...)
		if got, err := Push(t.Context(), at, images...); err != nil || got != want {
			t.Fatalf("got digest %s, %v, want %s", got, err, want)
		}
		ref, err := name.ParseReference(at)
		if err != nil {
			t.Fatal(err)
		}
		found, err := remote.Head(ref)
		if err != nil || found.Digest != want {
			t.Errorf("%d platforms: the registry has %v, %v, want %s", len(images), found, err, want)
		}
	}
}

func TestRefuses(t *testing.T) {
	t.Parallel()
	static := program(t, "linux/amd64")
	for name, test := range map[string]struct{ tag, file, platform, want string }{
		"a dynamic program":       {tag, program(t, "linux/amd64", "-buildmode=pie"), "linux/amd64", "linked dynamically"},
		"a program of another":    {tag, static, "linux/arm64", "EM_X86_64"},
		"no program":              {tag, "oci_test.go", "linux/amd64", "not a program of Linux"},
		"a name without registry": {"docket:dev", static, "linux/amd64", "registry"},
		"a name without tag":      {"docket.test/docket", static, "linux/amd64", "tag"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := WriteArchive(filepath.Join(t.TempDir(), "image.tar"), test.tag, Image{Platform: test.platform, Programs: []Program{{test.file, "/docket"}}})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
}
