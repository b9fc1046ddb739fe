// Package client is not within decision or the like: its comments, for whoever, are not read.
package client

import (
	"errors"
	"fmt"
)

var ErrNone = errors.New("a body that is none")

func open() error { return fmt.Errorf("%w in place of a directory", ErrNone) }
