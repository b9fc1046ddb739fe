package main

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // registers itself
	packaged "github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm" // registers itself
)

// sorted are files in the order of the archive.
func sorted(files []file) []file {
	return slices.SortedFunc(slices.Values(files), func(a, b file) int { return cmp.Compare(a.archive, b.archive) })
}

// writePackage writes one for Debian ("deb") or with RPM ("rpm"), under the name that is usual there.
func (r release) writePackage(format, platform string, files []file) error {
	stage, err := os.MkdirTemp("", "docket-package-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(stage) }()
	system, arch, _ := strings.Cut(platform, "/")
	packaging := filepath.Join(r.root, "packaging")
	info := &nfpm.Info{
		Name: "docket", Platform: system, Arch: arch, Version: r.version,
		Maintainer: "The docket authors", Vendor: "The docket authors", License: "Apache-2.0",
		Homepage:    "https://" + module,
		Description: "Durable export of policy decisions\nTakes decision logs in, keeps them on disk and delivers them to where they are read.",
		Section:     "admin", MTime: r.commit.time,
		Overridables: nfpm.Overridables{Scripts: nfpm.Scripts{
			PostInstall: filepath.Join(packaging, "postinstall.sh"),
			PreRemove:   filepath.Join(packaging, "preremove.sh"),
			PostRemove:  filepath.Join(packaging, "postremove.sh"),
		}},
	}
	for _, f := range sorted(files) {
		c := &packaged.Content{Source: f.source, Destination: f.target, FileInfo: &packaged.ContentFileInfo{Mode: f.mode}}
		switch {
		case strings.HasPrefix(f.target, "/etc/"):
			c.Type = packaged.TypeConfigNoReplace
		case strings.HasPrefix(f.target, "/usr/share/man/"): // which packages hold compressed
			c.Source, c.Destination = filepath.Join(stage, filepath.Base(f.target)+".gz"), f.target+".gz"
			if err := compress(c.Source, f.source); err != nil {
				return err
			}
		case format == "rpm" && strings.HasSuffix(f.target, "/vendor-completions/_docket"):
			c.Destination = "/usr/share/zsh/site-functions/_docket"
		}
		info.Contents = append(info.Contents, c)
	}
	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	info = nfpm.WithDefaults(info)
	var content bytes.Buffer
	if err := packager.Package(info, &content); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, packager.ConventionalFileName(info)), content.Bytes(), 0o644)
}

func compress(name, source string) error {
	content, err := os.ReadFile(source)
	if err != nil {
		return err
	}
	var buf bytes.Buffer
	w, err := gzip.NewWriterLevel(&buf, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := w.Write(content); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return os.WriteFile(name, buf.Bytes(), 0o644)
}
