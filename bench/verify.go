package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// exportRecords are in the export that is verified: 1 GB, which is in the page cache
// of any machine that runs this.
const exportRecords = 1_000_000

const sumCommand = "sha256sum"

// checkSum says whether there is the program to compare with.
func (l *lab) checkSum() error {
	if _, err := exec.LookPath(sumCommand); err != nil {
		return fmt.Errorf("%w: install the coreutils, or leave this out with -only", err)
	}
	return nil
}

// verify measures docket verify and what there is to be compared with, in turn. The
// export is made once for all rounds: nobody changes it.
func (l *lab) verify(ctx context.Context) (map[string]float64, error) {
	dir, err := l.export(ctx)
	if err != nil {
		return nil, err
	}
	return l.compareHashes(ctx, dir)
}

// export returns the directory of an export. The first call makes it; Close removes
// it.
func (l *lab) export(ctx context.Context) (string, error) {
	dir := filepath.Join(l.Disk, "verified")
	if l.exported {
		return exportDirectory(dir), nil
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	err := l.makeExport(ctx, dir, exportRecords/producers*producers)
	l.exported = err == nil
	return exportDirectory(dir), err
}

// makeExport has docket export a backlog and end.
func (l *lab) makeExport(ctx context.Context, dir string, records int) error {
	queueDir := filepath.Join(dir, "queue")
	if err := fillQueue(ctx, queueDir, records); err != nil {
		return err
	}
	s, err := l.startSidecar(ctx, dir, toFile)
	if err != nil {
		return err
	}
	if err := s.waitDelivered(ctx, toFile, records); err != nil {
		return errors.Join(err, s.LastWords())
	}
	if err := s.Stop(); err != nil {
		return err
	}
	return os.RemoveAll(queueDir)
}

// compareHashes reads the export with each program in turn.
func (l *lab) compareHashes(ctx context.Context, dir string) (map[string]float64, error) {
	files, size, err := exportedFiles(dir)
	if err != nil {
		return nil, err
	}
	programs := []struct {
		key  string
		read func() error
	}{
		{"sum", func() error { return quietly(exec.CommandContext(ctx, sumCommand, files...)) }},
		{"plain", func() error { return hashFiles(ctx, files) }},
		{"verify", func() error { return unanchored(quietly(exec.CommandContext(ctx, l.docket, "verify", dir))) }},
	}
	if err := hashFiles(ctx, files); err != nil { // so that all of it is in the page cache
		return nil, err
	}
	totals := make([]transfer, len(programs))
	for range readPasses {
		for i, p := range programs {
			began := time.Now()
			if err := p.read(); err != nil {
				return nil, fmt.Errorf("%s: %w", p.key, err)
			}
			totals[i].bytes += size
			totals[i].took += time.Since(began)
		}
	}
	values := map[string]float64{"size": float64(size) / 1e6}
	for i, p := range programs {
		values[p.key] = totals[i].rate()
	}
	return values, nil
}

// exportedFiles are the files with records in dir, and how many bytes they have.
func exportedFiles(dir string) (files []string, size int, err error) {
	if files, err = filepath.Glob(filepath.Join(dir, "decisions-*")); err != nil {
		return nil, 0, err
	}
	for _, name := range files {
		info, err := os.Stat(name)
		if err != nil {
			return nil, 0, err
		}
		size += int(info.Size())
	}
	if size == 0 {
		return nil, 0, fmt.Errorf("%s has no records", dir)
	}
	return files, size, nil
}

// quietly runs a program whose output nobody needs unless it fails.
func quietly(cmd *exec.Cmd) error {
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", filepath.Base(cmd.Path), err, bytes.TrimSpace(out))
	}
	return nil
}

// unanchored takes the verdict on an export whose end nobody has told, which is whole:
// exit code 3.
func unanchored(err error) error {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == 3 {
		return nil
	}
	return err
}

// hashFiles is the plain program in this language: one file after the other.
func hashFiles(ctx context.Context, files []string) error {
	buf := make([]byte, 256<<10)
	for _, name := range files {
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, err := hashFile(name, buf); err != nil {
			return err
		}
	}
	return nil
}

func hashFile(name string, buf []byte) (sum []byte, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	h := sha256.New()
	for {
		n, err := f.Read(buf)
		h.Write(buf[:n])
		if errors.Is(err, io.EOF) {
			return h.Sum(nil), nil
		}
		if err != nil {
			return nil, err
		}
	}
}
