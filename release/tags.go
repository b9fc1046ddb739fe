package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// commit is the one that a release is made of.
type commit struct {
	hash string
	time time.Time // that of everything in the release: a second build has it too
}

func readCommit(ctx context.Context, root string) (commit, error) {
	out, err := output(ctx, root, "git", "log", "-1", "--format=%H %ct")
	if err != nil {
		return commit{}, err
	}
	hash, seconds, _ := strings.Cut(strings.TrimSpace(out), " ")
	unix, err := strconv.ParseInt(seconds, 10, 64)
	return commit{hash, time.Unix(unix, 0).UTC()}, err
}

var versionTag = regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`)

// releasedVersion is that of the tags at HEAD. A module without its tag could not be
// required at the version that the others ask for, so each must have one.
func releasedVersion(ctx context.Context, root string) (string, error) {
	out, err := output(ctx, root, "git", "tag", "--points-at", "HEAD")
	if err != nil {
		return "", err
	}
	tags := strings.Fields(out)
	var versions []string
	for _, tag := range tags {
		if versionTag.MatchString(tag) {
			versions = append(versions, tag)
		}
	}
	if len(versions) != 1 {
		return "", fmt.Errorf("got tags %q at HEAD, want one version, such as v0.1.0", tags)
	}
	version := versions[0]
	modules, err := workspace(ctx, root)
	if err != nil {
		return "", err
	}
	var problems []error
	for _, dir := range modules {
		if want := dir + "/" + version; dir != "." && !slices.Contains(tags, want) {
			problems = append(problems, fmt.Errorf("HEAD has the tag %s and not %s", version, want))
		}
		problems = append(problems, requiresOwn(ctx, root, dir, version))
	}
	status, err := output(ctx, root, "git", "status", "--porcelain")
	if err != nil {
		return "", err
	}
	if status != "" {
		problems = append(problems, fmt.Errorf("the tree differs from %s:\n%s", version, status))
	}
	return version, errors.Join(problems...)
}

// workspace lists the directories of the modules that go.work joins.
func workspace(ctx context.Context, root string) ([]string, error) {
	out, err := output(ctx, root, "go", "work", "edit", "-json")
	if err != nil {
		return nil, err
	}
	var work struct{ Use []struct{ DiskPath string } }
	if err := json.Unmarshal([]byte(out), &work); err != nil {
		return nil, err
	}
	dirs := make([]string, 0, len(work.Use))
	for _, u := range work.Use {
		dirs = append(dirs, filepath.ToSlash(filepath.Clean(u.DiskPath)))
	}
	return dirs, nil
}

// requiresOwn finds what a go.mod requires of docket's modules at another version.
func requiresOwn(ctx context.Context, root, dir, version string) error {
	out, err := output(ctx, filepath.Join(root, dir), "go", "mod", "edit", "-json")
	if err != nil {
		return err
	}
	var mod struct {
		Require []struct{ Path, Version string }
	}
	if err := json.Unmarshal([]byte(out), &mod); err != nil {
		return err
	}
	var problems []error
	for _, r := range mod.Require {
		if own(r.Path) && r.Version != version {
			problems = append(problems, fmt.Errorf("%s/go.mod requires %s %s, and the tag is %s", dir, r.Path, r.Version, version))
		}
	}
	return errors.Join(problems...)
}

const module = "github.com/docket-export/docket"

// own says whether a module is one of docket's.
func own(path string) bool { return path == module || strings.HasPrefix(path, module+"/") }

// output runs a command in dir and returns what it prints.
func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return "", fmt.Errorf("%s: %w\n%s%s", cmd, err, out, exit.Stderr)
	}
	return string(out), err
}
