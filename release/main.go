// Command release makes what a release of docket consists of, below an empty directory:
//
//	go run -C release . -out /tmp/release -key cosign.key
//
// For each platform an archive, a package for Debian and one for RPM, with the list of what
// is linked (CycloneDX); one image for all; the checksums of these; a statement of
// how they were made (in-toto, SLSA). With a key the last two are signed as cosign
// signs. The version is that of the tags at HEAD, which must be there for every module.
//
// It asks nothing of the network but the database of known vulnerabilities.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"

	"github.com/docket-export/docket/release/internal/compile"
)

// platforms are those of the archives, as in hack/crosscheck; those of the
// packages and the image are the same.
const platforms = "linux/amd64,linux/arm64,linux/arm,linux/386,linux/s390x,linux/ppc64le,linux/riscv64"

func main() {
	r := release{password: []byte(os.Getenv("COSIGN_PASSWORD"))}
	flag.StringVar(&r.out, "out", "", "`directory` to write, which must be empty or missing")
	list := flag.String("platform", platforms, "platforms, with commas between")
	flag.StringVar(&r.image, "image", "docket.test/docket", "name of the image, with the host of its registry; the tag is the version")
	flag.StringVar(&r.key, "key", "", "private key to sign with, as cosign generate-key-pair writes it (password: COSIGN_PASSWORD) or ECDSA in PKCS #8; empty: nothing is signed")
	flag.BoolVar(&r.snapshot, "snapshot", false, "make a version of its own of any tree, for trials")
	flag.BoolVar(&r.vulncheck, "vulncheck", true, "refuse a release with known vulnerabilities; GOVULNDB names another database")
	flag.Parse()
	r.platforms = strings.Split(*list, ",")

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, r)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, r release) error {
	if r.out == "" {
		return errors.New("-out is required")
	}
	if entries, err := os.ReadDir(r.out); err == nil && len(entries) > 0 {
		return fmt.Errorf("%s is not empty", r.out)
	}
	var err error
	if r.root, err = compile.Root(); err != nil {
		return err
	}
	if r.commit, err = readCommit(ctx, r.root); err != nil {
		return err
	}
	if r.snapshot {
		r.version = "v0.0.0-snapshot." + r.commit.hash[:12]
	} else if r.version, err = releasedVersion(ctx, r.root); err != nil {
		return err
	}
	return r.make(ctx)
}
