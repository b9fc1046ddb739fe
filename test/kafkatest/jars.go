package kafkatest

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/docket-export/docket/test/internal/repo"
)

// version is the Kafka release that pom.xml asks for.
const version = "4.3.1"

//go:embed pom.xml
var pom []byte

// downloadTimeout leaves room for 45 MB over a slow line.
const downloadTimeout = 10 * time.Minute

// jars returns the folder that holds Kafka and what it needs, downloading it
// into the cache of the repository unless it is there. It ends the test, by a
// skip or a failure, when it cannot be had.
func jars(t testing.TB) string {
	root, err := repo.Root()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := exec.LookPath("java"); err != nil {
		unavailable(t, "java is not installed: install the package openjdk-17-jre-headless (or any Java from 17 on)")
	}
	cache := filepath.Join(root, ".cache")
	if err := os.MkdirAll(cache, 0o755); err != nil {
		t.Fatal(err)
	}
	unlock, err := lock(filepath.Join(cache, "kafka.lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()

	dir := filepath.Join(cache, "kafka-"+version)
	if complete(dir) {
		return dir
	}
	if _, err := exec.LookPath("mvn"); err != nil {
		unavailable(t, "mvn is not installed: install the package maven")
	}
	if err := download(t, cache, dir); err != nil {
		unavailable(t, "%v", err)
	}
	return dir
}

// unavailable ends the test because something it needs from outside cannot be
// had: a failure where everything is expected to be there, a skip elsewhere.
func unavailable(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("no Kafka: "+format, args...)
	}
	t.Skipf("no Kafka: "+format, args...)
}

// complete reports whether dir was made by this pom.xml, and to the end.
func complete(dir string) bool {
	made, err := os.ReadFile(filepath.Join(dir, "pom.xml"))
	return err == nil && bytes.Equal(made, pom)
}

// download puts the jars into dir. They are gathered in another folder of cache,
// which takes the name dir when it is complete.
func download(t testing.TB, cache, dir string) error {
	t.Logf("downloading the jars of Kafka %s (45 MB) with mvn, once, into %s", version, dir)
	began := time.Now()
	//nolint:usetesting // the name of a folder can only change within its file system
	unfinished, err := os.MkdirTemp(cache, "unfinished-kafka-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(unfinished) }() // gone when it was renamed
	file := filepath.Join(unfinished, "pom.xml")
	if err := os.WriteFile(file, pom, 0o644); err != nil {
		return err
	}

	ctx, cancel := context.WithTimeout(t.Context(), downloadTimeout)
	defer cancel()
	defer sayEvery(15*time.Second, func() {
		files, _ := filepath.Glob(filepath.Join(unfinished, "*.jar"))
		t.Logf("still downloading after %.0f s, %d jars are there", time.Since(began).Seconds(), len(files))
	})()
	cmd := exec.CommandContext(ctx, "mvn", "-q", "-B", "-f", file, "dependency:copy-dependencies",
		"-DincludeScope=runtime", "-DoutputDirectory="+unfinished)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("download Kafka %s with mvn: %w\n%s", version, err, bytes.TrimSpace(out))
	}

	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.Rename(unfinished, dir); err != nil {
		return err
	}
	t.Logf("downloaded the jars of Kafka %s in %.1f s", version, time.Since(began).Seconds())
	return nil
}

// sayEvery calls say again and again until the function it returns is called,
// which waits for the last call.
func sayEvery(interval time.Duration, say func()) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				say()
			case <-quit:
				return
			}
		}
	}()
	return func() { close(quit); <-done }
}

// lock waits for the lock file at path, which keeps the test programs of several
// packages from downloading side by side.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { f.Close() }, nil
}
