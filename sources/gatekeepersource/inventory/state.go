package inventory

import (
	"errors"
	"maps"
	"net/url"
	"strconv"
	"time"

	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/sources/statefile"
)

// stateVersion is that of the document. There is no other yet.
const stateVersion = 1

// state is what must be known after a restart. It may be older than the queue, or gone:
// the queue recognises what is sent again.
type state struct {
	Version int `json:"version"`
	// Done are the files that were read, by id, until they are gone from the path.
	Done map[string]doneFile `json:"done"`
	// Seen are files that are not claimed in a way that outlives this process, by
	// stemKey. Should one be gone after a restart, what it held is lost.
	Seen map[string]seenFile `json:"seen"`
	// Channels is what is known of each channel beyond its files.
	Channels map[string]Channel `json:"channels"`
}

type doneFile struct {
	Channel string `json:"channel"`
	Size    int64  `json:"size"` // that was read; a file of another size is read again
}

type seenFile struct {
	Channel string `json:"channel"`
	File    string `json:"file"`
	Size    int64  `json:"size,omitempty"` // when it was seen last; 0: not known
}

// Channel is what is known of a channel beyond its files.
type Channel struct {
	// Newest is when the newest run began that was ever seen: an older one that is not
	// finished has been abandoned.
	Newest time.Time `json:"newest"`
	// Previous is how many violations the last complete run had.
	Previous *uint64 `json:"previous,omitempty"`
	// HasDelta says that there is a state of the changes between runs.
	HasDelta bool `json:"hasDelta,omitempty"`
	// DeltaLost counts how often that state was lost: what is sent of a run depends on
	// it, and so do the numbers of its lines.
	DeltaLost int `json:"deltaLost,omitempty"`
}

func newState() state {
	return state{
		Version: stateVersion, Done: make(map[string]doneFile),
		Seen: make(map[string]seenFile), Channels: make(map[string]Channel),
	}
}

// clone returns a copy that shares nothing that changes.
func (s state) clone() state {
	s.Done, s.Seen, s.Channels = maps.Clone(s.Done), maps.Clone(s.Seen), maps.Clone(s.Channels)
	return s
}

func statePath(stateDir disk.Path) disk.Path { return stateDir.Join("state.json") }

// loadState reads the state. What cannot be read was set aside by statefile, which
// damaged says; the source goes on without it.
func loadState(stateDir disk.Path) (s state, damaged *statefile.DamagedError, err error) {
	s = newState() // a document without a member leaves the empty map
	if _, err = statefile.Load(statePath(stateDir), stateVersion, &s); errors.As(err, &damaged) {
		return newState(), damaged, nil
	}
	s.Version = stateVersion
	return s, nil, err
}

// Check reports a state of a version that is not read.
func Check(stateDir disk.Path) error { return statefile.Check(statePath(stateDir), stateVersion) }

// stemKey identifies what becomes one file, under whatever names, by its place.
func stemKey(channel, stem string) string { return url.PathEscape(channel + "/" + stem) }

// fileID identifies a file: its place and its inode, as a place may be used again.
func fileID(channel, stem string, inode uint64) string {
	return strconv.FormatUint(inode, 10) + "-" + stemKey(channel, stem)
}
