package directory

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/docket-export/docket/webhook/engine/policy"
)

// CacheName is the directory beside the policies that has what was valid last, where no other
// is named. Like everything hidden it is not read for policies.
const CacheName = ".docket-last"

// Cache keeps durably what was valid last: the revision of each policy, and the text of each
// file, since a file with a mistake does not tell which policies it had. A nil Cache
// keeps nothing.
type Cache struct{ dir string }

// OpenCache returns the cache in dir, which it makes if it is not there. It fails if nothing
// can be written there.
func OpenCache(dir string) (*Cache, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	// Of a process that was killed: one cache belongs to one process.
	stale, _ := filepath.Glob(filepath.Join(dir, newPrefix+"*")) // the pattern is valid
	for _, path := range stale {
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	probe, err := os.CreateTemp(dir, newPrefix)
	if err != nil {
		return nil, err
	}
	return &Cache{dir}, errors.Join(probe.Close(), os.Remove(probe.Name()), syncDir(filepath.Dir(dir)))
}

// Keep implements policy.Revisions.
func (c *Cache) Keep(_ context.Context, policy *unstructured.Unstructured) error {
	text, err := json.Marshal(policy.Object)
	if err != nil {
		return err
	}
	return c.write(policyEntry(policy.GetKind(), policy.GetName()), text)
}

// Last implements policy.Revisions. Policies in files have no UID.
func (c *Cache) Last(_ context.Context, id policy.ID, _ types.UID) (*unstructured.Unstructured, error) {
	name := policyEntry(id.Kind, id.Name)
	text, err := c.read(name)
	if text == nil {
		return nil, err
	}
	revision := new(unstructured.Unstructured)
	if err := revision.UnmarshalJSON(text); err != nil {
		return nil, fmt.Errorf("%s: %w: remove it", filepath.Join(c.dir, name), err)
	}
	return revision, nil
}

// How the names of files in a cache begin.
const (
	policyPrefix = "policy-"
	filePrefix   = "file-"
	newPrefix    = "docket-new-" // not whole yet
)

func policyEntry(kind, name string) string { return entry(policyPrefix, kind+"."+name) }
func fileEntry(path string) string         { return entry(filePrefix, path) }

// entry is the name of a file of the cache: readable, but bounded and without a slash.
func entry(prefix, name string) string {
	return fmt.Sprintf("%s%.100s-%x", prefix, url.PathEscape(name), sha256.Sum256([]byte(name)))
}

// read returns nil if there is no such entry.
func (c *Cache) read(entry string) ([]byte, error) {
	if c == nil {
		return nil, nil
	}
	text, err := os.ReadFile(filepath.Join(c.dir, entry))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return text, err
}

// write makes text the entry's, durably and as a whole.
func (c *Cache) write(entry string, text []byte) error {
	if c == nil {
		return nil
	}
	if old, _ := c.read(entry); old != nil && bytes.Equal(old, text) {
		return nil
	}
	f, err := os.CreateTemp(c.dir, newPrefix)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), filepath.Join(c.dir, entry))
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return syncDir(c.dir)
}

// prune removes every entry that is not wanted, and nothing else that is in the directory. A
// policy that comes again must not get a revision of the one that was deleted.
func (c *Cache) prune(wanted map[string]bool) error {
	if c == nil {
		return nil
	}
	entries, err := os.ReadDir(c.dir)
	for _, e := range entries {
		ours := strings.HasPrefix(e.Name(), policyPrefix) || strings.HasPrefix(e.Name(), filePrefix)
		if ours && !wanted[e.Name()] {
			err = errors.Join(err, os.Remove(filepath.Join(c.dir, e.Name())))
		}
	}
	return err
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
