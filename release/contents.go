package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// file is one of an archive and of the packages.
type file struct {
	source  string // where it lies
	archive string // path in the archive
	target  string // path where a package puts it
	mode    os.FileMode
}

// shared makes the files that every platform has, below stage.
func (r release) shared(ctx context.Context, stage, host string, libraries []library) ([]file, error) {
	packaging := filepath.Join(r.root, "packaging")
	notice := filepath.Join(stage, "NOTICE")
	if err := os.WriteFile(notice, noticeOf(libraries), 0o644); err != nil {
		return nil, err
	}
	files := []file{
		{filepath.Join(r.root, "LICENSE"), "LICENSE", "/usr/share/doc/docket/copyright", 0o644},
		{notice, "NOTICE", "/usr/share/doc/docket/NOTICE", 0o644},
		{filepath.Join(packaging, "docket.yaml"), "systemd/docket.yaml", "/etc/docket/docket.yaml", 0o644},
		{filepath.Join(packaging, "docket.service"), "systemd/docket.service", "/usr/lib/systemd/system/docket.service", 0o644},
		{filepath.Join(packaging, "docket.socket"), "systemd/docket.socket", "/usr/lib/systemd/system/docket.socket", 0o644},
		{filepath.Join(packaging, "sysusers.conf"), "systemd/sysusers.conf", "/usr/lib/sysusers.d/docket.conf", 0o644},
	}
	for shell, target := range map[string]string{
		"bash": "/usr/share/bash-completion/completions/docket",
		"fish": "/usr/share/fish/vendor_completions.d/docket.fish",
		"zsh":  "/usr/share/zsh/vendor-completions/_docket",
	} {
		script, err := output(ctx, stage, host, "completion", shell)
		if err != nil {
			return nil, err
		}
		at := filepath.Join(stage, "docket."+shell)
		if err := os.WriteFile(at, []byte(script), 0o644); err != nil {
			return nil, err
		}
		files = append(files, file{at, "completions/docket." + shell, target, 0o644})
	}
	man := filepath.Join(stage, "man")
	if _, err := output(ctx, r.root, "go", "run", "./hack/commands", "-man", man); err != nil {
		return nil, err
	}
	pages, err := os.ReadDir(man)
	if err != nil {
		return nil, err
	}
	for _, page := range pages {
		files = append(files, file{filepath.Join(man, page.Name()), "man/" + page.Name(), "/usr/share/man/man1/" + page.Name(), 0o644})
	}
	return files, nil
}

var chartVersions = regexp.MustCompile(`(?m)^(version|appVersion): .*$`)

// writeChart packages the chart as helm does, with the version of the release: without the
// v, which Helm's versions do not have, and as the image's default tag with it.
func (r release) writeChart(stage string) error {
	root, version := filepath.Join(r.root, "charts", "docket"), strings.TrimPrefix(r.version, "v")
	var files []file
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		inside, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		if inside == "Chart.yaml" {
			text, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			name = filepath.Join(stage, inside)
			text = chartVersions.ReplaceAllFunc(text, func(line []byte) []byte {
				if bytes.HasPrefix(line, []byte("version")) {
					return []byte("version: " + version)
				}
				return []byte("appVersion: " + r.version)
			})
			if err := os.WriteFile(name, text, 0o644); err != nil {
				return err
			}
		}
		files = append(files, file{source: name, archive: filepath.ToSlash(inside), mode: 0o644})
		return nil
	})
	if err != nil {
		return err
	}
	return r.writeArchive(filepath.Join(r.out, "docket-"+version+".tgz"), "docket", files)
}

// writeArchive writes files below the directory top. The same files make the same bytes.
func (r release) writeArchive(name, top string, files []file) error {
	var buf bytes.Buffer
	zipped, err := gzip.NewWriterLevel(&buf, gzip.BestCompression)
	if err != nil {
		return err
	}
	w := tar.NewWriter(zipped)
	for _, f := range sorted(files) {
		content, err := os.ReadFile(f.source)
		if err != nil {
			return err
		}
		h := &tar.Header{Name: path.Join(top, f.archive), Mode: int64(f.mode), Size: int64(len(content)), ModTime: r.commit.time}
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		if _, err := w.Write(content); err != nil {
			return err
		}
	}
	for _, c := range []io.Closer{w, zipped} {
		if err := c.Close(); err != nil {
			return err
		}
	}
	return os.WriteFile(name, buf.Bytes(), 0o644)
}
