package oci

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/docket-export/docket/release/internal/compile"
)

// Docket builds docket below dir, for images of it. Without a version it is the one of the tree.
func Docket(ctx context.Context, dir, version string, platforms ...string) ([]Image, error) {
	if version == "" {
		var err error
		if version, err = compile.Version(ctx); err != nil {
			return nil, err
		}
	}
	images := make([]Image, 0, len(platforms))
	for _, platform := range platforms {
		d := compile.Docket{Platform: platform, Version: version, Out: filepath.Join(dir, strings.ReplaceAll(platform, "/", "-"), "docket")}
		if err := d.Build(ctx); err != nil {
			return nil, err
		}
		images = append(images, Of(platform, version, d.Out))
	}
	return images, nil
}

// Of is the image of docket, which has been built as file.
func Of(platform, version, file string) Image {
	return Image{
		Platform: platform,
		Programs: []Program{{File: file, Path: "/docket"}},
		Labels: map[string]string{
			"org.opencontainers.image.title":    "docket",
			"org.opencontainers.image.version":  version,
			"org.opencontainers.image.licenses": "Apache-2.0",
		},
	}
}
