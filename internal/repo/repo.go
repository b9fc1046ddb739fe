// Package repo finds the repository that the tests belong to.
package repo

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// module is the first line of the product's go.mod, which marks the root.
const module = "module github.com/docket-export/docket\n"

// Root returns the top folder of the repository: the nearest one at or above the
// working directory that holds the product's go.mod. A test runs in the folder of
// its package.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the repository: %w", err)
	}
	for {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("find the repository: %w", err)
		}
		if bytes.HasPrefix(text, []byte(module)) {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("find the repository: no folder above the working directory holds its go.mod")
		}
		dir = parent
	}
}
