// Command image makes the container image of docket, without a container builder:
//
//	go run -C release ./image -out /tmp/docket.tar -name docket.test/docket:dev
//	go run -C release ./image -push -name registry.example.com/docket:1.0.0
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

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/docket-export/docket/release/internal/oci"
)

// order is what to make, and where it goes.
type order struct {
	out, name, version  string
	push                bool
	platforms, programs []string
}

func main() {
	var o order
	flag.StringVar(&o.out, "out", "", "archive to write, an OCI image layout in a tar `file`")
	flag.BoolVar(&o.push, "push", false, "push the image to its registry, with the credentials that docker login has stored")
	flag.StringVar(&o.name, "name", "", "name and tag of the image, with the host of its registry: registry.example.com/docket:v1")
	platforms := flag.String("platform", "linux/"+runtime.GOARCH, "platforms of the image, with commas between")
	flag.StringVar(&o.version, "version", "", "what docket version says; empty: what git describe says")
	flag.Parse()
	o.platforms, o.programs = strings.Split(*platforms, ","), flag.Args()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := o.run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func (o order) run(ctx context.Context) error {
	if o.out == "" && !o.push || o.name == "" {
		return errors.New("-name is required, and -out or -push")
	}
	if len(o.programs) > 0 && len(o.platforms) > 1 {
		return fmt.Errorf("got %d platforms: programs are of one", len(o.platforms))
	}
	var images []oci.Image
	if len(o.programs) > 0 {
		img := oci.Image{Platform: o.platforms[0]}
		for _, program := range o.programs {
			img.Programs = append(img.Programs, parse(program))
		}
		images = append(images, img)
	} else {
		dir, err := os.MkdirTemp("", "docket-image-")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(dir) }()
		if images, err = oci.Docket(ctx, dir, o.version, o.platforms...); err != nil {
			return err
		}
	}
	var digest v1.Hash
	var err error
	if o.out != "" {
		if digest, err = oci.WriteArchive(o.out, o.name, images...); err != nil {
			return err
		}
	}
	if o.push {
		if digest, err = oci.Push(ctx, o.name, images...); err != nil {
			return err
		}
	}
	fmt.Printf("%s %s\n", digest, o.name)
	return nil
}

func parse(program string) oci.Program {
	if file, at, ok := strings.Cut(program, ":"); ok {
		return oci.Program{File: file, Path: path.Join("/", at)}
	}
	return oci.Program{File: program, Path: "/" + filepath.Base(program)}
}
