//go:build !unix

package client

import (
	"io/fs"
	"os"
)

// notFollowed has no meaning here: a link in the place of a file is followed.
const notFollowed = 0

func isShared(fs.FileInfo) bool { return false }

// lockFile makes the file at path. There is no lock here: two clients with one
// file are not told of each other.
func lockFile(path string) (*os.File, error) {
	return openOwn(path, os.O_RDWR|os.O_CREATE)
}
