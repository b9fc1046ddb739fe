// Command image makes the container image of docket, without a container builder:
//
//	go run -C release ./image -out /tmp/docket.tar -name docket.test/docket:dev
//
// With programs named it makes an image of these instead, for tests: FILE, or FILE:/PATH for
// a place other than the root directory. The first is the entry point. Names of
// files are relative to release/.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/docket-export/docket/release/internal/oci"
)

func main() {
	out := flag.String("out", "", "archive to write, an OCI image layout in a tar `file`")
	name := flag.String("name", "", "name and tag of the image, with the host of its registry: registry.example.com/docket:v1")
	platforms := flag.String("platform", "linux/"+runtime.GOARCH, "platforms of the image, with commas between")
	version := flag.String("version", "", "what docket version says; empty: what git describe says")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *out, *name, *version, strings.Split(*platforms, ","), flag.Args())
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out, name, version string, platforms, programs []string) error {
	if out == "" || name == "" {
		return errors.New("-out and -name are required")
	}
	if len(programs) > 0 && len(platforms) > 1 {
		return fmt.Errorf("got %d platforms: programs are of one", len(platforms))
	}
	var images []oci.Image
	if len(programs) > 0 {
		img := oci.Image{Platform: platforms[0]}
		for _, program := range programs {
			img.Programs = append(img.Programs, parse(program))
		}
		images = append(images, img)
	} else {
		dir, err := os.MkdirTemp("", "docket-image-")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(dir) }()
		if images, err = oci.Docket(ctx, dir, version, platforms...); err != nil {
			return err
		}
	}
	digest, err := oci.WriteArchive(out, name, images...)
	if err != nil {
		return err
	}
	fmt.Printf("%s %s\n", digest, name)
	return nil
}

func parse(program string) oci.Program {
	if file, at, ok := strings.Cut(program, ":"); ok {
		return oci.Program{File: file, Path: path.Join("/", at)}
	}
	return oci.Program{File: program, Path: "/" + filepath.Base(program)}
}
