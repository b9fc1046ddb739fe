//go:build !unix

package client

import "os"

// lockFile makes the file at path. There is no lock here: two clients with one
// file are not told of each other.
func lockFile(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
}
