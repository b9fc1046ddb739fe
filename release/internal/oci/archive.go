package oci

import (
	"archive/tar"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// WriteArchive writes the images as one, named tag, and returns the digest that a registry
// would show. The archive is an OCI image layout as containerd and skopeo import it;
// for one platform it is what docker load takes as well.
func WriteArchive(file, tag string, images ...Image) (v1.Hash, error) {
	ref, err := name.NewTag(tag, name.StrictValidation)
	if err != nil {
		return v1.Hash{}, err
	}
	dir, err := os.MkdirTemp(filepath.Dir(file), ".docket-layout-")
	if err != nil {
		return v1.Hash{}, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	digest, err := writeLayout(dir, ref, images)
	if err != nil {
		return v1.Hash{}, err
	}
	return digest, writeTar(file, dir)
}

// Push sends what WriteArchive writes to the registry that tag names, with the credentials
// that docker login or the like has stored.
func Push(ctx context.Context, tag string, images ...Image) (v1.Hash, error) {
	ref, err := name.NewTag(tag, name.StrictValidation)
	if err != nil {
		return v1.Hash{}, err
	}
	options := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
	if len(images) == 1 {
		img, err := images[0].build()
		if err != nil {
			return v1.Hash{}, err
		}
		if err := remote.Write(ref, img, options...); err != nil {
			return v1.Hash{}, err
		}
		return img.Digest()
	}
	index, err := indexOf(images)
	if err != nil {
		return v1.Hash{}, err
	}
	if err := remote.WriteIndex(ref, index, options...); err != nil {
		return v1.Hash{}, err
	}
	return index.Digest()
}

func writeLayout(dir string, ref name.Tag, images []Image) (v1.Hash, error) {
	at, err := layout.Write(dir, empty.Index)
	if err != nil {
		return v1.Hash{}, err
	}
	named := layout.WithAnnotations(map[string]string{
		"io.containerd.image.name":          ref.Name(),
		"org.opencontainers.image.ref.name": ref.TagStr(),
	})
	if len(images) == 1 {
		img, err := images[0].build()
		if err != nil {
			return v1.Hash{}, err
		}
		if err := writeManifest(dir, ref, img); err != nil {
			return v1.Hash{}, err
		}
		digest, err := img.Digest()
		if err != nil {
			return v1.Hash{}, err
		}
		return digest, at.AppendImage(img, named)
	}
	index, err := indexOf(images)
	if err != nil {
		return v1.Hash{}, err
	}
	digest, err := index.Digest()
	if err != nil {
		return v1.Hash{}, err
	}
	return digest, at.AppendIndex(index, named)
}

// indexOf joins images of several platforms.
func indexOf(images []Image) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, i := range images {
		img, err := i.build()
		if err != nil {
			return nil, err
		}
		platform, err := v1.ParsePlatform(i.Platform)
		if err != nil {
			return nil, err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: platform}})
	}
	return index, nil
}

// writeManifest adds the list that docker load reads, over the same blobs.
func writeManifest(dir string, ref name.Tag, img v1.Image) error {
	m, err := img.Manifest()
	if err != nil {
		return err
	}
	blob := func(h v1.Hash) string { return "blobs/" + h.Algorithm + "/" + h.Hex }
	entry := map[string]any{"Config": blob(m.Config.Digest), "RepoTags": []string{ref.Name()}}
	layers := []string{}
	for _, l := range m.Layers {
		layers = append(layers, blob(l.Digest))
	}
	entry["Layers"] = layers
	content, err := json.Marshal([]any{entry})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "manifest.json"), content, 0o644)
}

// writeTar writes the files of dir, in the order of their names, without times and owners.
func writeTar(file, dir string) error {
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer out.Close()
	w := tar.NewWriter(out)
	err = fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(filepath.Join(dir, path))
		if err != nil {
			return err
		}
		if err := w.WriteHeader(&tar.Header{Name: path, Mode: 0o644, Size: int64(len(content))}); err != nil {
			return err
		}
		_, err = w.Write(content)
		return err
	})
	if err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	if err := w.Close(); err != nil {
		return err
	}
	return out.Close()
}
