package state

import (
	"errors"

	"github.com/google/uuid"
)

// OwnerOf returns the queue that most of a directory's files belong to, the first
// of several; the segments come first. So one file of another queue never makes
// this one give up its records.
func OwnerOf(ids []uuid.UUID) (owner uuid.UUID) {
	votes := map[uuid.UUID]int{}
	for _, id := range ids {
		votes[id]++
	}
	for _, id := range ids {
		if votes[id] > votes[owner] {
			owner = id
		}
	}
	return owner
}

// ErrOtherQueue says that a file is whole and belongs to a queue that is not this
// one.
var ErrOtherQueue = errors.New("it belongs to queue")
