// Package oci makes container images of static programs, without a container builder. The
// same programs give the same digest.
package oci

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// Image is what runs on one platform. Beside the programs it holds the certificates of the
// public authorities and the empty directories that docket uses.
type Image struct {
	Platform string // "linux/amd64"
	Programs []Program
	Labels   map[string]string
}

// Program is one file of an image. The first is the entry point.
type Program struct {
	File string // static, or the image has no loader for it
	Path string // in the image
}

// user is the one of most images without a shell. It is a number, as the kubelet
// cannot see that a name is not root's (runAsNonRoot).
const user = 65532

// build makes the image: one layer, and a configuration that names nothing of the
// machine it was made on.
func (i Image) build() (v1.Image, error) {
	platform, err := v1.ParsePlatform(i.Platform)
	if err != nil {
		return nil, err
	}
	created, err := epoch()
	if err != nil {
		return nil, err
	}
	files, err := i.archive(created)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files)), nil },
		tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err := mutate.Append(base, mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: created}, CreatedBy: "docket release"}})
	if err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config.OS, config.Architecture, config.Variant = platform.OS, platform.Architecture, platform.Variant
	config.Created = v1.Time{Time: created}
	config.Config = v1.Config{
		User:       fmt.Sprintf("%d:%d", user, user),
		Entrypoint: []string{i.Programs[0].Path},
		Env:        []string{"PATH=/"},
		WorkingDir: "/",
		Labels:     i.Labels,
	}
	return mutate.ConfigFile(img, config)
}

// archive is the layer.
func (i Image) archive(created time.Time) ([]byte, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	add := func(h tar.Header, content []byte) error {
		h.ModTime, h.Size = created, int64(len(content))
		if err := w.WriteHeader(&h); err != nil {
			return err
		}
		_, err := w.Write(content)
		return err
	}
	for _, dir := range []tar.Header{
		{Name: "etc/", Mode: 0o755},
		{Name: "etc/docket/", Mode: 0o755},
		{Name: "etc/ssl/", Mode: 0o755},
		{Name: "etc/ssl/certs/", Mode: 0o755},
		{Name: "run/", Mode: 0o755},
		{Name: "run/docket/", Mode: 0o750, Uid: user, Gid: user},
		{Name: "var/", Mode: 0o755},
		{Name: "var/lib/", Mode: 0o755},
		{Name: "var/lib/docket/", Mode: 0o750, Uid: user, Gid: user},
	} {
		dir.Typeflag = tar.TypeDir
		if err := add(dir, nil); err != nil {
			return nil, err
		}
	}
	if err := add(tar.Header{Name: "etc/ssl/certs/ca-certificates.crt", Mode: 0o644}, roots()); err != nil {
		return nil, err
	}
	for _, p := range i.Programs {
		content, err := os.ReadFile(p.File)
		if err != nil {
			return nil, err
		}
		if err := i.runs(p.File, content); err != nil {
			return nil, err
		}
		if err := add(tar.Header{Name: p.Path[1:], Mode: 0o755}, content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// machines are the architectures of Go, as programs name them.
var machines = map[string]elf.Machine{
	"386": elf.EM_386, "amd64": elf.EM_X86_64, "arm": elf.EM_ARM, "arm64": elf.EM_AARCH64,
	"ppc64le": elf.EM_PPC64, "riscv64": elf.EM_RISCV, "s390x": elf.EM_S390,
}

// runs refuses a program of another platform, or one that asks for a loader that the image has not.
func (i Image) runs(file string, content []byte) error {
	program, err := elf.NewFile(bytes.NewReader(content))
	if err != nil {
		return fmt.Errorf("%s: not a program of Linux: %w", file, err)
	}
	if _, arch, _ := strings.Cut(i.Platform, "/"); machines[arch] != program.Machine {
		return fmt.Errorf("%s: a program for %s, and the image is for %s", file, program.Machine, i.Platform)
	}
	for _, p := range program.Progs {
		if p.Type != elf.PT_INTERP {
			continue
		}
		loader, err := io.ReadAll(p.Open())
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if at := string(bytes.TrimRight(loader, "\x00")); !slices.ContainsFunc(i.Programs, func(p Program) bool { return p.Path == at }) {
			return fmt.Errorf("%s: linked dynamically: there is no %s in the image; build it with CGO_ENABLED=0", file, at)
		}
	}
	return nil
}

// roots are Mozilla's, without those that hold under conditions: a PEM file cannot
// say them.
func roots() []byte {
	var file bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			file.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}))
		}
	}
	return file.Bytes()
}

// epoch is the time of everything in an image: SOURCE_DATE_EPOCH's, or that of 1970.
func epoch() (time.Time, error) {
	s := os.Getenv("SOURCE_DATE_EPOCH")
	if s == "" {
		return time.Unix(0, 0).UTC(), nil
	}
	seconds, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	return time.Unix(seconds, 0).UTC(), nil
}
