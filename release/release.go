package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/docket-export/docket/release/internal/compile"
	"github.com/docket-export/docket/release/internal/oci"
)

// release is what to make, and of what.
type release struct {
	root      string // of the repository
	out       string
	version   string // "v0.1.0"
	commit    commit
	platforms []string
	image     string
	key       string // file; empty: nothing is signed
	password  []byte // of key
	snapshot  bool
	vulncheck bool
}

// name begins the names of files.
func (r release) name() string { return "docket_" + strings.TrimPrefix(r.version, "v") }

func (r release) make(ctx context.Context) error {
	var signer *signer
	if r.key != "" {
		var err error
		if signer, err = readKey(r.key, r.password); err != nil {
			return err
		}
	}
	stage, err := os.MkdirTemp("", "docket-release-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(stage) }()
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	// The image reads it.
	if err := os.Setenv("SOURCE_DATE_EPOCH", fmt.Sprint(r.commit.time.Unix())); err != nil {
		return err
	}
	programs := make(map[string]string)
	for _, platform := range append([]string{runtime.GOOS + "/" + runtime.GOARCH}, r.platforms...) {
		if programs[platform] != "" {
			continue
		}
		programs[platform] = filepath.Join(stage, strings.ReplaceAll(platform, "/", "-"), "docket")
		if err := (compile.Docket{Platform: platform, Version: r.version, Out: programs[platform]}).Build(ctx); err != nil {
			return err
		}
	}
	host := programs[runtime.GOOS+"/"+runtime.GOARCH]
	if err := r.checkVulnerabilities(ctx, host); err != nil {
		return err
	}
	libraries, err := linked(ctx, r.root, host)
	if err != nil {
		return err
	}
	shared, err := r.shared(ctx, stage, host, libraries)
	if err != nil {
		return err
	}
	var images []oci.Image
	for _, platform := range r.platforms {
		files := append([]file{{programs[platform], "docket", "/usr/bin/docket", 0o755}}, shared...)
		if err := r.files(platform, files, libraries); err != nil {
			return fmt.Errorf("%s: %w", platform, err)
		}
		images = append(images, oci.Of(platform, r.version, programs[platform]))
	}
	if err := r.writeChart(stage); err != nil {
		return fmt.Errorf("chart: %w", err)
	}
	archive, tag := filepath.Join(r.out, r.name()+"_image.tar"), r.image+":"+r.version
	digest, err := oci.WriteArchive(archive, tag, images...)
	if err != nil {
		return err
	}
	fmt.Println(digest, tag)
	return r.vouch(signer, subject{Name: r.image, Digest: map[string]string{digest.Algorithm: digest.Hex}})
}

// files makes what there is for each platform.
func (r release) files(platform string, files []file, libraries []library) error {
	name := r.name() + "_" + strings.ReplaceAll(platform, "/", "_")
	if err := r.writeArchive(filepath.Join(r.out, name+".tar.gz"), name, files); err != nil {
		return err
	}
	for _, format := range []string{"deb", "rpm"} {
		if err := r.writePackage(format, platform, files); err != nil {
			return fmt.Errorf("%s: %w", format, err)
		}
	}
	return r.writeBOM(filepath.Join(r.out, name+".cdx.json"), files[0].source, libraries)
}

// checkVulnerabilities refuses a program that uses what the database of Go knows to be vulnerable.
func (r release) checkVulnerabilities(ctx context.Context, program string) error {
	if !r.vulncheck {
		fmt.Fprintln(os.Stderr, "release: vulnerabilities are not looked for")
		return nil
	}
	args := []string{"tool", "govulncheck", "-mode=binary"}
	if db := os.Getenv("GOVULNDB"); db != "" {
		args = append(args, "-db="+db)
	}
	_, err := output(ctx, filepath.Join(r.root, "release"), "go", append(args, program)...)
	return err
}
